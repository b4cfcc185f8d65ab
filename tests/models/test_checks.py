"""Tests of models/checks.py: integral numbers of any type are valid sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite import models
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import Conv2D, FullyConnected
from tensorpack_lite.tfutils.tower.context import TowerContext

INTEGRAL = [
    pytest.param(number, id=type(number).__name__)
    for number in (2.0, np.int64(2), np.uint8(2), np.float32(2), tf.Dimension(2))
]


def images():
    return tf.placeholder(tf.float32, [4, 6, 6, 4])


def sequences():
    return tf.placeholder(tf.float32, [4, 6, 3])


@pytest.mark.parametrize("two", INTEGRAL)
@pytest.mark.parametrize(
    ("layer", "inputs", "arguments"),
    [
        ("Conv2D", images, {"filters": 2, "kernel_size": 2, "strides": 2, "split": 2}),
        ("Conv2D", images, {"filters": 2, "kernel_size": (2, 2), "dilation_rate": 2}),
        ("Conv2DTranspose", images, {"filters": 2, "kernel_size": 2, "strides": [2, 2]}),
        ("FullyConnected", images, {"units": 2}),
        ("MaxPooling", images, {"pool_size": 2, "strides": 2}),
        ("AvgPooling", images, {"pool_size": (2, 2)}),
        ("FixedUnPooling", images, {"shape": 2}),
        ("BatchNorm", images, {"virtual_batch_size": 2}),
        ("Maxout", images, {"num_unit": 2}),
        pytest.param("LSTM", sequences, {"units": 2, "num_layers": 2}, marks=pytest.mark.slow),
        ("GRU", sequences, {"units": 2}),
        ("MultiHeadAttention", sequences, {"num_heads": 2, "key_dim": 2, "units": 2, "value_dim": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_layers_take_integral_numbers(layer, inputs, arguments, two):
    """A float, a NumPy number or a tf.Dimension of integral value has the same effect as an int."""
    other = {name: [two, two] if isinstance(value, (list, tuple)) else two for name, value in arguments.items()}
    shapes = []
    with TowerContext("", is_training=True):
        for scope, kwargs in (("expected", arguments), ("got", other)):
            with tf.variable_scope(scope):
                output = getattr(models, layer)("layer", inputs(), **kwargs)
            output = output[0] if isinstance(output, tuple) else output
            variables = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope)
            shapes.append([tensor.shape.as_list() for tensor in (output, *variables)])
    assert shapes[0] == shapes[1]


def test_sizes_of_other_tensors():
    """`x.shape[3]` and `n / 2`, as old scripts compute them, are valid numbers of filters and units."""
    x = images()
    assert [4, 6, 6, 4] == Conv2D("conv", x, x.shape[3], 1).shape.as_list()
    assert [4, 5] == FullyConnected("fc", x, 10 / 2).shape.as_list()
