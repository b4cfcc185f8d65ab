"""Tests of the moments in models/normalization.py, and of second derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import BatchNorm, InstanceNorm, LayerNorm
from tensorpack_lite.models.normalization import combine_moments, compute_moments
from tensorpack_lite.tfutils.tower.context import TowerContext

RNG = np.random.RandomState(0)


@pytest.fixture(autouse=True)
def same_numbers():
    """Seed the random numbers of each test."""
    RNG.seed(0)


class TestBatchMoments:
    def test_values(self, sess):
        """The mean and biased variance over the given axes are right; float16 is widened to float32."""
        x = RNG.normal(2, 3, [4, 3, 5])
        for dtype, tolerance in ((tf.float64, 1e-12), (tf.float16, 2e-3)):
            mean, variance = compute_moments(tf.constant(x, dtype), [0, 2])
            assert [1, 3, 1] == mean.shape.as_list() == variance.shape.as_list()
            assert mean.dtype == (tf.float64 if dtype == tf.float64 else tf.float32)
            np.testing.assert_allclose(x.mean((0, 2), keepdims=True), sess.run(mean), rtol=tolerance)
            np.testing.assert_allclose(x.var((0, 2), keepdims=True), sess.run(variance), rtol=tolerance)

    def test_second_derivative(self, sess):
        """The second derivative includes the mean: d/dx sum_i c_i dV/dx_i = 2/N (c - mean of c)."""
        x, c = RNG.normal(size=[6, 1]), RNG.normal(size=[6, 1])
        inputs = tf.constant(x)
        first = tf.gradients(compute_moments(inputs, [0])[1], inputs)[0]
        second = tf.gradients(tf.reduce_sum(first * c), inputs)[0]
        np.testing.assert_allclose(2 / 6 * (x - x.mean()), sess.run(first))
        np.testing.assert_allclose(2 / 6 * (c - c.mean()), sess.run(second))


class TestPenaltyOnGradients:
    """WGAN-GP on normalization layers."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("layer", "shape"), [(BatchNorm, [4, 3]), (LayerNorm, [4, 3]), (InstanceNorm, [2, 3, 2, 2])]
    )
    def test_derivative(self, sess, layer, shape):
        """The derivative of a gradient penalty equals finite differences in float64."""
        x, direction, weights = RNG.normal(size=shape), RNG.normal(size=shape), RNG.normal(size=shape)
        inputs = tf.placeholder(tf.float64, shape)
        with TowerContext("", is_training=True):
            scores = tf.reduce_sum(tf.sin(layer("norm", inputs)) * weights)
        penalty = tf.reduce_sum(tf.gradients(scores, inputs)[0] ** 2)
        slope = tf.reduce_sum(tf.gradients(penalty, inputs)[0] * direction)
        sess.run(tf.global_variables_initializer())
        h = 1e-5
        above, below = (sess.run(penalty, {inputs: x + sign * h * direction}) for sign in (1, -1))
        np.testing.assert_allclose((above - below) / (2 * h), sess.run(slope, {inputs: x}), rtol=1e-5)


def test_joint_moments(sess):
    """The moments of several batches together follow from those of each batch."""
    batches = RNG.normal(1000, 1, [3, 8, 2]).astype("float32")
    others = np.concatenate([batches.astype("float64").mean(1), (batches.astype("float64") ** 2).mean(1)], 1)
    mean, variance = combine_moments(
        tf.constant(batches[0].mean(0)),
        tf.constant(batches[0].var(0)),
        lambda tensor: (tensor + others[1] + others[2]) / 3,
    )
    joint = batches.reshape(-1, 2).astype("float64")
    np.testing.assert_allclose(joint.mean(0), sess.run(mean), rtol=1e-6)
    # the limit of float32 means; with squares in float32, the error would be 0.06
    np.testing.assert_allclose(joint.var(0), sess.run(variance), rtol=1e-4)
