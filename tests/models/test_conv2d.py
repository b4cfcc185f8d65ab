"""Tests of models/conv2d.py and outputs.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.layer_rows import convolve, transposed_convolve

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import Conv2D, Conv2DTranspose, FullyConnected, conv2d, l2_regularizer
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope

LOSSES = tf.GraphKeys.REGULARIZATION_LOSSES
PIXELS = np.random.RandomState(0).uniform(-1, 1, [2, 5, 4, 4]).astype(np.float32)


def pixels(*shape):
    return tf.placeholder(tf.float32, shape or [None, 8, 8, 4])


def initialize(sess):
    sess.run(tf.global_variables_initializer())


class TestConv2D:
    def test_groups_keep_one_kernel(self, sess):
        """W is [kh, kw, C / split, filters], and without a GPU, its parts are applied one by one."""
        out = Conv2D("c", tf.constant(PIXELS), 6, 3, split=2)
        assert [3, 3, 2, 6] == out.variables.W.shape.as_list()
        assert 1 == len([v for v in tf.global_variables() if v.op.name == "c/W"])
        initialize(sess)
        value, kernel = sess.run([out, out.variables.W])
        for group in range(2):
            part, filters = PIXELS[..., 2 * group : 2 * group + 2], slice(3 * group, 3 * group + 3)
            np.testing.assert_allclose(convolve(part, kernel[..., filters]), value[..., filters], rtol=1e-4, atol=1e-5)

    def test_groups_with_a_gpu_are_one_operation(self, monkeypatch):
        """With a GPU, TensorFlow's grouped convolution computes all groups."""
        monkeypatch.setattr(conv2d, "get_num_gpu", lambda: 1)
        out = Conv2D("c", tf.constant(PIXELS), 6, 3, split=2)
        assert [2, 5, 4, 6] == out.shape.as_list()
        assert 1 == len([op for op in tf.get_default_graph().get_operations() if op.type == "Conv2D"])

    def test_fan_in_of_groups(self, sess):
        """The fan-in of the initializer counts the C / split channels that an output depends on."""
        out = Conv2D("c", tf.zeros([1, 3, 3, 64]), 512, 3, split=4)
        initialize(sess)
        assert abs(sess.run(out.variables.W).std() / np.sqrt(2 / 144) - 1) < 0.03

    def test_inputs(self):
        """All sizes but the channels may be unknown. The input can be a variable, e.g. a trained image."""
        assert [None, None, None, 6] == Conv2D("c", pixels(None, None, None, 4), 6, 3).shape.as_list()
        assert [2, 5, 4, 2] == Conv2D("d", tf.get_variable("image", PIXELS.shape), 2, 3).shape.as_list()

    def test_regularizers_of_groups_and_dilation(self):
        """Regularizers work with split and dilation_rate."""
        for name, kwargs in (("a", {"split": 2}), ("b", {"dilation_rate": 2})):
            Conv2D(name, pixels(), 4, 3, kernel_regularizer=l2_regularizer(1.0), **kwargs)
        assert 2 == len(tf.get_collection(LOSSES))


class TestRegularizers:
    def test_once_with_the_variable(self, sess):
        """A reused variable adds no second regularization cost."""

        @auto_reuse_variable_scope
        def model(x):
            return Conv2D("c", x, 2, 3, kernel_regularizer=l2_regularizer(2.0), bias_regularizer=l2_regularizer(4.0),
                          bias_initializer=tf.ones_initializer())  # fmt: skip

        with tf.variable_scope("", use_resource=True):
            out = model(tf.constant(PIXELS))
            model(tf.constant(PIXELS))
        assert 2 == len(tf.get_collection(LOSSES))
        initialize(sess)
        kernel, kernel_cost, bias_cost = sess.run([out.variables.W] + tf.get_collection(LOSSES))
        np.testing.assert_allclose((kernel**2).sum(), kernel_cost, rtol=1e-5)
        assert 4 == bias_cost

    def test_activity(self, sess):
        """activity_regularizer adds the cost of the activated output, divided by the batch size, at each call."""

        @auto_reuse_variable_scope
        def model(x):
            return FullyConnected("f", x, 3, activation=tf.nn.relu, activity_regularizer=tf.reduce_sum)

        outputs = [model(tf.constant(PIXELS)), model(tf.constant(PIXELS * 2))]
        initialize(sess)
        values, costs = sess.run([outputs, tf.get_collection(LOSSES)])
        np.testing.assert_allclose([value.sum() / 2 for value in values], costs, rtol=1e-5)


class TestConv2DTranspose:
    @pytest.mark.parametrize(
        ("padding", "kernel", "stride", "size"),
        [
            ("same", 3, 2, 16),
            ("same", 1, 3, 24),
            ("valid", 3, 2, 17),
            ("valid", 2, 2, 16),
            ("valid", 1, 2, 16),
        ],
    )
    def test_size(self, padding, kernel, stride, size):
        """The size is H * stride (same) or H * stride + max(kernel - stride, 0) (valid)."""
        out = Conv2DTranspose("c", pixels(), 6, kernel, stride, padding=padding)
        assert [None, size, size, 6] == out.shape.as_list()

    def test_unknown_sizes_stay_unknown(self, sess):
        """Height and width can be unknown independently of each other."""
        x = pixels(None, None, 4, 4)
        out = Conv2DTranspose("c", x, 3, 3, 2, padding="valid")
        assert [None, None, 9, 3] == out.shape.as_list()
        initialize(sess)
        value, kernel = sess.run([out, out.variables.W], {x: PIXELS})
        np.testing.assert_allclose(transposed_convolve(PIXELS, kernel, (2, 2), "valid"), value, rtol=1e-4, atol=1e-5)

    def test_it_is_the_adjoint_of_a_convolution(self, sess):
        """It is the adjoint of Conv2D with the same W: <conv(x), y> = <x, transposed(y)>."""
        x = tf.constant(PIXELS)
        forward = Conv2D("c", x, 6, 3, padding="valid", use_bias=False)
        y = tf.constant(np.random.RandomState(1).uniform(-1, 1, forward.shape.as_list()).astype(np.float32))
        with tf.variable_scope("", reuse=True):
            backward = Conv2DTranspose("c", y, 4, 3, padding="valid", use_bias=False)
        initialize(sess)
        one, other = sess.run([tf.reduce_sum(forward * y), tf.reduce_sum(x * backward)])
        np.testing.assert_allclose(one, other, rtol=1e-4)
