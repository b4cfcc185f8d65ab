"""Tests of models/layer_norm.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import InstanceNorm, LayerNorm

PIXELS = np.random.RandomState(0).uniform(-1, 1, [2, 3, 3, 4]).astype(np.float32)


@pytest.mark.parametrize("layer", [LayerNorm, InstanceNorm])
class TestBoth:
    def test_they_hold_variables(self, layer, sess):
        """`.variables` has the variables themselves, not reshaped tensors, or none. A constant image becomes beta, 0."""
        out = layer("other", tf.ones([2, 3, 3, 4]), epsilon=0.1, center=False, scale=False)
        assert [] == tf.global_variables() == out.variables.all()
        assert (0 == sess.run(out)).all()
        variables = layer("n", tf.constant(PIXELS), data_format="NCHW").variables
        beta, gamma = sorted(tf.trainable_variables(), key=lambda var: var.op.name)
        assert variables.gamma is gamma
        assert variables.beta is beta

    def test_float16_in_float32(self, layer, sess):
        """Float16 inputs are normalized in float32, so large values do not overflow."""
        data = (PIXELS * 1000).astype(np.float16)
        out = layer("n", tf.constant(data))
        sess.run(tf.global_variables_initializer())
        value = sess.run(out)
        assert np.float16 == value.dtype
        axes = (1, 2, 3) if layer is LayerNorm else (1, 2)
        wide = data.astype(np.float64)
        expected = (wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True)
        np.testing.assert_allclose(expected, value, atol=5e-3)
