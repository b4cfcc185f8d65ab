"""Numbers of elements above 2^31 are counted in 64 bits. Only the graphs are built, because the tensors would need gigabytes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.callbacks.epoch_end import _checksum
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.graph_builder.collective import RankGroup, _Reducer
from tensorpack_lite.graph_builder.packing import GradientPacker
from tensorpack_lite.models import BatchNorm
from tensorpack_lite.tfutils.tower.context import TrainTowerContext

LARGE = 2**31 + 10


def checksum():
    return _checksum(tf.get_variable("large", [LARGE], tf.int8, tf.zeros_initializer()))


def all_reduce():
    tensors = [tf.placeholder(tf.float32, [size]) for size in (LARGE, 3)]
    return _Reducer(RankGroup(0, 2), 0.5, None).fused(tensors)


def pack():
    packer, grads = GradientPacker(2), [tf.placeholder(tf.float32, [size]) for size in (LARGE, 3 * LARGE)]
    assert packer.compute_strategy(grads)
    return packer.unpack(packer.pack(grads))


def batch_norm():
    with TrainTowerContext(""):
        return BatchNorm("bn", tf.placeholder(tf.float64, [2**11 + 1, 2**10, 2**10, 1]))


@pytest.mark.parametrize("build", [checksum, all_reduce, pack, batch_norm])
def test_counts_have_64_bits(build):
    """No operation returns the size or a dimension above 2^31 of a tensor in 32 bits, in which constants become negative."""
    build()
    wrong = []
    for op in tf.get_default_graph().get_operations():
        if not op.outputs or op.outputs[0].dtype != tf.int32:
            continue
        if op.type == "Const":
            wrong += [op.name] if np.any(tf.make_ndarray(op.get_attr("value")) < -1) else []
        elif op.type == "Size":
            wrong += [op.name] if op.inputs[0].shape.num_elements() >= 2**31 else []
        elif op.type == "Shape":
            wrong += [op.name] if max(op.inputs[0].shape.as_list()) >= 2**31 else []
    assert [] == wrong
