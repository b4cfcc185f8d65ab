"""Tests of models/arguments.py: old names, positional arguments, activations."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import (
    AvgPooling,
    BatchNorm,
    BatchRenorm,
    Conv2D,
    Conv2DTranspose,
    FullyConnected,
    InstanceNorm,
    LayerNorm,
    MaxPooling,
)
from tensorpack_lite.models.arguments import convert_to_tflayer_args, get_activation
from tensorpack_lite.tfutils.argscope import argscope, get_arg_scope
from tensorpack_lite.tfutils.tower.context import TowerContext


def pixels():
    return tf.placeholder(tf.float32, [None, 8, 8, 4])


def shapes():
    return {v.op.name: v.shape.as_list() for v in tf.global_variables()}


class TestOldNames:
    def test_conv2d(self):
        """Conv2D accepts out_channel, kernel_shape, stride, nl, W_init, b_init and data_format='NHWC'."""
        ones, twos = tf.ones_initializer(), tf.constant_initializer(2.0)
        out = Conv2D(
            "c", pixels(), out_channel=6, kernel_shape=3, stride=2, padding="SAME", nl=tf.nn.relu,
            W_init=ones, b_init=twos, data_format="NHWC",
        )  # fmt: skip
        assert [None, 4, 4, 6] == out.shape.as_list()
        assert {"c/W": [3, 3, 4, 6], "c/b": [6]} == shapes()
        assert "c/Relu" == out.op.inputs[0].op.name
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert [1, 2] == [session.run(v).max() for v in tf.global_variables()]

    def test_conv2d_transpose(self):
        """Conv2DTranspose accepts strides by position, unlike Conv2D."""
        out = Conv2DTranspose("c", pixels(), out_channel=2, kernel_shape=3, stride=2)
        again = Conv2DTranspose("d", pixels(), 2, 3, 2)
        assert [None, 16, 16, 2] == out.shape.as_list() == again.shape.as_list()

    def test_fully_connected(self):
        """FullyConnected accepts out_dim for units."""
        assert [None, 3] == FullyConnected("f", pixels(), out_dim=3, nl=tf.identity).shape.as_list()

    @pytest.mark.parametrize("layer", [MaxPooling, AvgPooling])
    def test_pooling(self, layer):
        """Poolings accept `shape` and `stride`, and both by position."""
        assert [None, 3, 3, 4] == layer("p", pixels(), shape=3, stride=2).shape.as_list()
        assert [None, 3, 3, 4] == layer("q", pixels(), 3, 2).shape.as_list()

    def test_norms(self):
        """Normalization layers accept use_bias, use_scale, gamma_init, decay and use_local_stat."""
        with TowerContext("", is_training=True):
            BatchNorm(
                "b",
                pixels(),
                use_bias=False,
                gamma_init=tf.ones_initializer(),
                decay=0.5,
                use_local_stat=True,
            )
            BatchRenorm("r", pixels(), rmax=2, dmax=1, use_bias=False, use_scale=False, decay=0.5)
            LayerNorm("l", pixels(), use_bias=True, use_scale=False)
            InstanceNorm("i", pixels(), gamma_init=tf.constant_initializer(2.0))
        trained = [v.op.name for v in tf.trainable_variables()]
        assert ["b/gamma", "l/beta", "i/gamma", "i/beta"] == trained

    def test_activations(self):
        """`nl` is called with name=None, `activation` with one argument. nl=None means no activation."""
        calls = []

        def nonlinearity(x, *args, **kwargs):
            calls.append((args, kwargs))
            return x

        FullyConnected("f", pixels(), 3, nl=nonlinearity)
        FullyConnected("g", pixels(), 3, activation=nonlinearity)
        assert [((), {"name": None}), ((), {})] == calls
        assert "h/BiasAdd" == FullyConnected("h", pixels(), 3, nl=None).op.inputs[0].op.name


class TestPositional:
    def test_it_takes_precedence(self):
        """A positional argument takes precedence over argscope, under its new and its old name."""
        with argscope(Conv2D, filters=5, kernel_size=5):
            Conv2D("c", pixels(), 6, 3)
        with argscope(FullyConnected, out_dim=5):
            FullyConnected("f", pixels(), 6)
        assert {"c/W": [3, 3, 4, 6], "c/b": [6], "f/W": [256, 6], "f/b": [6]} == shapes()


class TestArgscope:
    def test_old_names_in_a_scope(self):
        """argscope accepts old names, and inner scopes take precedence over outer ones."""
        with argscope([Conv2D, FullyConnected], nl=tf.nn.relu, W_init=tf.zeros_initializer()):
            with argscope(Conv2D, nl=tf.nn.tanh, data_format="NHWC"):
                assert "c/Tanh" == Conv2D("c", pixels(), 3, 3).op.inputs[0].op.name
                assert "NHWC" == get_arg_scope()["Conv2D"]["data_format"]
            assert "d/Relu" == Conv2D("d", pixels(), 3, 3).op.inputs[0].op.name
        with pytest.raises(KeyError):
            get_arg_scope()["Conv2D"]["data_format"]

    def test_it_reaches_into_activations(self):
        """argscope applies to the BatchNorm inside of activation=BNReLU."""
        from tensorpack_lite.models import BNReLU

        with TowerContext("", is_training=True), argscope(BatchNorm, center=False):
            Conv2D("c", pixels(), 3, 3, activation=BNReLU)
        assert ["c/W", "c/b", "c/bn/gamma"] == [v.op.name for v in tf.trainable_variables()]


class TestActivation:
    @pytest.mark.parametrize(
        "name", ["elu", "relu", "relu6", "selu", "sigmoid", "softmax", "softplus", "swish", "tanh"]
    )
    def test_by_name(self, name, sess):
        """The name of an activation is that of a function in tf.nn; None and 'linear' add no operation."""
        x = tf.constant([[-1.0, 2.0]])
        assert x is get_activation(None)(x) is get_activation("linear")(x)
        np.testing.assert_array_equal(sess.run(getattr(tf.nn, name)(x)), sess.run(get_activation(name)(x)))


def test_the_decorator_for_own_layers():
    """convert_to_tflayer_args renames arguments of a user's layer, by position, old name and data_format."""

    @convert_to_tflayer_args(args_names=["units"], name_mapping={"out_dim": "units"})
    def Own(inputs, units, data_format="channels_last", kernel_initializer=None):
        """Doc."""
        return inputs, units, data_format, kernel_initializer

    assert (1, 2, "channels_first", 3) == Own(1, 2, data_format="NCHW", W_init=3)
    assert (1, 2, "channels_last", None) == Own(1, out_dim=2)
    assert ("Own", "Doc.") == (Own.__name__, Own.__doc__)
