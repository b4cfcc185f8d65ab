"""Tests of models/layer_norm.py, in addition to the laws of layers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import InstanceNorm, LayerNorm

PIXELS = np.random.RandomState(0).uniform(-1, 1, [2, 3, 3, 4]).astype(np.float32)


@pytest.mark.parametrize("layer", [LayerNorm, InstanceNorm])
class TestBoth:
    def test_they_hold_variables(self, layer):
        """`.variables` has the variables themselves, not reshaped tensors."""
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

    def test_epsilon(self, layer, sess):
        """A constant image becomes beta, 0."""
        out = layer("n", tf.ones([2, 3, 3, 4]), epsilon=0.1)
        sess.run(tf.global_variables_initializer())
        assert (0 == sess.run(out)).all()

    def test_without_affine(self, layer):
        """Without center and scale, the layer has no variables."""
        out = layer("n", tf.constant(PIXELS), center=False, scale=False)
        assert [] == tf.global_variables() == out.variables.all()

    def test_rank(self, layer):
        """Inputs of rank 3 raise a ValueError."""
        with pytest.raises(
            ValueError, match=rf"{layer.__name__} 'n': the input has the wrong rank .*, got 3: \[2, 3, 3\]"
        ):
            layer("n", tf.constant(PIXELS[..., 0]))

    def test_unknown_channels(self, layer):
        """An unknown number of channels raises a ValueError."""
        with pytest.raises(ValueError, match="number of channels is unknown"):
            layer("n", tf.placeholder(tf.float32, [None, 3, 3, None]))


def test_instance_norm_takes_images_only():
    """InstanceNorm refuses vectors."""
    with pytest.raises(
        ValueError, match=r"InstanceNorm 'n': the input .* \(expected 4: \[N, H, W, C\], got 2: \[2, 4\]\)"
    ):
        InstanceNorm("n", tf.constant(PIXELS[:, 0, 0]))
