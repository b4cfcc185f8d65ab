"""Names of variables and operations that checkpoints and scripts depend on."""

from __future__ import annotations

import importlib

import pytest

from tensorpack_lite import models
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.tower.context import TowerContext


@pytest.mark.parametrize("tower", ["", "tower0"])
def test_towers(tower):
    """Names of operations start with the tower, names of variables do not. The laws of layers have all names."""
    with TowerContext(tower, is_training=True):
        out = models.BNReLU("x", models.FullyConnected("fc", tf.zeros([2, 3]), 2))
    variables = ["fc/W", "fc/b", "x/bn/gamma", "x/bn/beta", "x/bn/mean/EMA", "x/bn/variance/EMA"]
    assert variables == [v.op.name for v in tf.global_variables()]
    assert (f"{tower}/" if tower else "") + "x/Relu" == out.op.name


def test_scope_of_an_activation():
    """Variables of an activation are in the scope of the layer, e.g. conv0/bn/gamma."""
    with TowerContext("", is_training=True):
        models.Conv2D("conv0", tf.zeros([1, 6, 6, 4]), 4, 3, activation=models.BNReLU)
    assert [
        "conv0/W", "conv0/b", "conv0/bn/gamma", "conv0/bn/beta", "conv0/bn/mean/EMA", "conv0/bn/variance/EMA",
    ] == [v.op.name for v in tf.global_variables()]  # fmt: skip
    assert tf.get_default_graph().get_operation_by_name("conv0/Relu")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("common", "VariableHolder disable_layer_logging layer_register rename_tflayer_get_variable"),
        ("utils", "VariableHolder"),
        ("tflayer", "convert_to_tflayer_args rename_get_variable rename_tflayer_get_variable"),
        ("registry", "disable_layer_logging get_registered_layer layer_register"),
        ("fc", "FullyConnected batch_flatten"),
        ("batch_norm", "BatchNorm BatchRenorm"),
        ("conv2d", "Conv2D Conv2DTranspose Deconv2D"),
        ("shape_utils", "StaticDynamicShape"),
    ],
)
def test_paths_of_tensorpack(path, names):
    """The modules of tensorpack export the names that scripts import from them."""
    module = importlib.import_module(f"tensorpack_lite.models.{path}")
    assert [] == [name for name in names.split() if not hasattr(module, name)]
