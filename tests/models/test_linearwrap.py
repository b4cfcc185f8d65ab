"""Tests of models/linearwrap.py."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import LinearWrap, layer_register, registry
from tensorpack_lite.tfutils.tower.context import TowerContext


def image():
    return tf.placeholder(tf.float32, [None, 8, 8, 4])


class TestLayers:
    def test_a_chain(self):
        """Layers whose name is required, optional or missing work in one chain."""
        x = image()
        with TowerContext("", is_training=True):
            out = (
                LinearWrap(x)
                .Conv2D("conv0", 6, kernel_size=3)
                .MaxPooling("pool0", 2)
                .BNReLU()
                .BNReLU("again")
                .Deconv2D("up", 4, 3, strides=2)
                .ConcatWith(x, 3)
                .FullyConnected("fc", 10)()
            )
        assert [None, 10] == out.shape.as_list()
        names = [v.op.name.split("/")[0] for v in tf.trainable_variables()]
        assert ["conv0", "conv0", "bn", "bn", "again", "again", "up", "up", "fc", "fc"] == names

    def test_each_call_is_a_new_chain(self):
        """A call does not change the LinearWrap, so chains can branch."""
        start = LinearWrap(image())
        start.MaxPooling("pool", 2)
        assert [None, 8, 8, 4] == start.tensor().shape.as_list()

    def test_the_name_is_needed(self):
        """A missing name raises a TypeError that shows the correct call."""
        with pytest.raises(TypeError, match=r"LinearWrap: .Conv2D needs a name. Write .Conv2D\('conv2d0', ...\)"):
            LinearWrap(image()).Conv2D(3, 3)

    def test_an_unknown_layer(self):
        """An unknown layer is an AttributeError, so that hasattr and copy work."""
        with pytest.raises(AttributeError, match="LinearWrap: 'Conv3D' is not a layer"):
            LinearWrap(image()).Conv3D("conv0", 3, 3)
        wrap = LinearWrap(image())
        assert not hasattr(wrap, "shape")
        assert copy.copy(wrap)() is wrap()

    def test_two_layers_of_one_name(self, monkeypatch):
        """Two layers with one name only fail when LinearWrap looks the name up."""
        monkeypatch.setattr(registry, "_registry", registry._Registry())

        def register():
            @layer_register()
            def Twice(x):
                return x

            return Twice

        first, second = register(), register()
        x = image()
        assert x is first("a", x) is second("b", x)
        assert x is LinearWrap(x).apply2(first, "a")()
        with pytest.raises(KeyError, match="2 layers are named 'Twice'"):
            LinearWrap(x).Twice("a")


class TestTensorFlow:
    def test_functions_at_any_depth(self, sess):
        """`.tf.<path>` calls a function of TensorFlow with the tensor as first argument."""
        x = LinearWrap(tf.constant([[-2.0, 4.0]]))
        np.testing.assert_array_equal([[-1, 2]], sess.run(x.tf.multiply(0.5)()))
        np.testing.assert_allclose([[-0.4, 4]], sess.run(x.tf.nn.leaky_relu(alpha=0.2)()), rtol=1e-6)
        np.testing.assert_array_equal([[0, -2, 4]], sess.run(x.tf.pad([[0, 0], [1, 0]])()))
        assert "named" == x.tf.nn.relu(name="named")().op.name

    def test_names_of_tensorflow_1(self):
        """Functions of TensorFlow 1 work on TensorFlow 2."""
        out = LinearWrap(image()).tf.image.resize_nearest_neighbor([16, 16])()
        assert [None, 16, 16, 4] == out.shape.as_list()
        assert [] == LinearWrap(image()).tf.log().tf.div(2.0).tf.reduce_sum()().shape.as_list()

    def test_an_unknown_function(self):
        """An unknown function raises an error with its whole path."""
        with pytest.raises(AttributeError, match=r"LinearWrap: TensorFlow \d.* has no 'tf.nn.rleu'"):
            LinearWrap(image()).tf.nn.rleu()


class TestFunctions:
    def test_apply(self):
        """apply passes the tensor as first argument, apply2 as second one."""
        x = object()
        assert (x, 1, 2) == LinearWrap(x).apply(lambda *args, b: (*args, b), 1, b=2)()
        assert (1, x, 2, 3) == LinearWrap(x).apply2(lambda *args, b: (*args, b), 1, 2, b=3)()

    def test_print_tensor(self, log_lines):
        """print_tensor logs the tensor and returns the LinearWrap."""
        wrap = LinearWrap(tf.zeros([2, 3], name="zeros"))
        assert wrap is wrap.print_tensor()
        assert 1 == len(log_lines)
        assert "zeros:0" in log_lines[0]
