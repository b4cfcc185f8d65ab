"""Names of variables and operations that checkpoints and scripts depend on."""

from __future__ import annotations

import importlib

import pytest

from tensorpack_lite import models
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.tower.context import TowerContext

GOLDEN = """
    Conv2D          x/W x/b                                                             -> x/output
    Conv2DTranspose x/W x/b                                                             -> x/output
    Deconv2D        x/W x/b                                                             -> x/output
    FullyConnected  x/W x/b                                                             -> x/output
    BatchNorm       x/gamma x/beta x/mean/EMA x/variance/EMA                            -> x/output
    BatchRenorm     x/gamma x/beta x/moving_mean x/moving_variance x/moving_stddev x/renorm_mean x/renorm_stddev -> x/output
    LayerNorm       x/gamma x/beta                                                      -> x/output
    InstanceNorm    x/gamma x/beta                                                      -> x/output
    PReLU           x/alpha                                                             -> x/output
    BNReLU          x/bn/gamma x/bn/beta x/bn/mean/EMA x/bn/variance/EMA                -> x/Relu
    MaxPooling                                                                          -> x/output
    AvgPooling                                                                          -> x/output
    GlobalAvgPooling                                                                    -> x/output
    FixedUnPooling                                                                      -> x/output
    Maxout                                                                              -> x/output
    LSTM            x/lstm_cell/kernel x/lstm_cell/bias                                 -> x/output
    GRU             x/gru_cell/gates/kernel x/gru_cell/gates/bias x/gru_cell/candidate/kernel x/gru_cell/candidate/bias -> x/output
"""
ARGUMENTS = {
    "Conv2D": (4, 3), "Conv2DTranspose": (4, 3), "Deconv2D": (4, 3), "FullyConnected": (4,), "MaxPooling": (2,),
    "AvgPooling": (2,), "FixedUnPooling": (2,), "Maxout": (2,), "LSTM": (3,), "GRU": (3,),
}  # fmt: skip
LINES = [line.split("->") for line in GOLDEN.strip().splitlines()]


@pytest.mark.parametrize(("left", "output"), LINES, ids=[line[0].split()[0] for line in LINES])
@pytest.mark.parametrize("tower", ["", "tower0"])
def test_names(left, output, tower):
    """Names of operations start with the tower, names of variables do not."""
    layer, *variables = left.split()
    kwargs = {"rmax": 2.0, "dmax": 1.0} if layer == "BatchRenorm" else {}
    is_recurrent = layer in ("LSTM", "GRU")
    x = tf.placeholder(tf.float32, [None, 6, 4] if is_recurrent else [None, 6, 6, 4])
    with TowerContext(tower, is_training=True):
        out = getattr(models, layer)("x", x, *ARGUMENTS.get(layer, ()), **kwargs)
    out = out[0] if is_recurrent else out
    assert variables == [v.op.name for v in tf.global_variables()]
    assert (f"{tower}/" if tower else "") + output.strip() == out.op.name


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
