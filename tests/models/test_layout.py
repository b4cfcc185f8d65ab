"""Tests of models/layout.py."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BatchNorm, Conv2D, Conv2DTranspose, MaxPooling, layout
from tensorpack_lite.models.layout import convert_layout, get_kernel_format
from tensorpack_lite.tfutils.tower.context import TowerContext


@pytest.mark.parametrize(
    ("gpus", "data_format", "expected"),
    [(0, "NCHW", "NHWC"), (0, "channels_last", "NHWC"), (2, "channels_first", "NCHW"), (2, "NHWC", "NHWC")],
)
def test_without_a_gpu_channels_come_last(gpus, data_format, expected, monkeypatch):
    """Kernels use NHWC without a GPU, and the given format with one."""
    monkeypatch.setattr(layout, "get_num_gpu", lambda: gpus)
    assert expected == get_kernel_format(data_format)


def test_convert(sess):
    """convert_layout transposes images there and back; equal formats return the same tensor."""
    x = tf.constant(np.arange(24).reshape(1, 2, 3, 4))
    first = convert_layout(x, "NHWC", "channels_first")
    assert [1, 4, 2, 3] == first.shape.as_list()
    assert [1, 2, 3, 4] == convert_layout(first, "NCHW", "NHWC").shape.as_list()
    np.testing.assert_array_equal(*sess.run([x, convert_layout(first, "NCHW", "NHWC")]))
    assert x is convert_layout(x, "channels_last", "NHWC")


def test_with_a_gpu_the_kernels_get_channels_first(monkeypatch):
    """With a GPU, layers in NCHW create no transpositions."""
    monkeypatch.setattr(layout, "get_num_gpu", lambda: 1)
    x = tf.placeholder(tf.float32, [None, 4, 8, 8])
    with TowerContext("", is_training=True):
        x = BatchNorm("bn", Conv2D("conv", x, 4, 3, data_format="NCHW"), data_format="NCHW")
        x = Conv2DTranspose("up", MaxPooling("pool", x, 2, data_format="NCHW"), 5, 3, 2, data_format="NCHW")
    assert [None, 5, 8, 8] == x.shape.as_list()
    formats = {op.type: op.get_attr("data_format").decode() for op in tf.get_default_graph().get_operations()
               if op.type in ("Conv2D", "FusedBatchNormV3", "MaxPool", "Conv2DBackpropInput", "Transpose")}  # fmt: skip
    kinds = ("Conv2D", "FusedBatchNormV3", "MaxPool", "Conv2DBackpropInput")
    assert dict.fromkeys(kinds, "NCHW") == formats
