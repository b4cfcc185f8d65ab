"""Tests of the quantizers of dorefa_digits.py against closed forms, and of the example."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes.programs import read_stats

pytest.importorskip("cv2")

from tensorpack_lite.compat import tfv1 as tf

TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log"]


@pytest.fixture
def example(load_example):
    return load_example("dorefa_digits.py")


def unpack(packed, scale, bits, shape):
    """Return the weights that were given to `pack`."""
    ones = np.unpackbits(packed)[: int(np.prod(shape)) * bits].reshape(*shape, bits)
    return scale * (2 * (ones @ 2 ** np.arange(bits)) / (2**bits - 1) - 1)


class TestQuantizers:
    def test_one_bit_is_the_sign_times_the_mean(self, example):
        """One-bit weights are -E|w| and E|w|; the gradient passes unchanged."""
        w = tf.constant([-3.0, -1.0, 0.0, 4.0])
        quantized = example.quantize_weight(w, 1)
        gradient = tf.gradients(quantized * [1.0, 2.0, 3.0, 4.0], w)[0]
        with tf.Session() as session:
            values = session.run([quantized, gradient])
        np.testing.assert_allclose([-2, -2, 2, 2], values[0])
        np.testing.assert_allclose([1, 2, 3, 4], values[1])

    @pytest.mark.parametrize("bits", [2, 3])
    def test_more_bits_round_the_scaled_tanh(self, example, bits):
        """Weights of k bits are tanh(w) / max|tanh(w)|, rounded to 2**k equidistant values in [-1, 1]."""
        w = np.random.RandomState(0).randn(50).astype("float32")
        with tf.Session() as session:
            values = session.run(example.quantize_weight(tf.constant(w), bits))
        steps = 2**bits - 1
        scaled = np.tanh(w) / np.abs(np.tanh(w)).max()
        np.testing.assert_allclose(2 * np.rint((scaled + 1) / 2 * steps) / steps - 1, values, atol=1e-5)
        assert len(np.unique(np.rint(values * steps))) == 2**bits

    def test_two_bit_activations(self, example):
        """Two bits have the values 0, 1/3, 2/3 and 1, and the gradient is that of the input."""
        x = tf.constant([0.1, 0.2, 0.6, 0.9])
        rounded = example.round_to(x, 2)
        with tf.Session() as session:
            values = session.run([rounded, tf.gradients(rounded, x)[0]])
        np.testing.assert_allclose([0, 1 / 3, 2 / 3, 1], values[0], atol=1e-6)
        np.testing.assert_allclose(np.ones(4), values[1])

    def test_gradients_are_rounded_on_a_scale_for_each_image(self, example):
        """Quantized gradients are multiples of the image's step, at most one step away, and correct on average."""
        bits, repeats = 3, 2000
        dy = np.random.RandomState(0).randn(2, 2, 2, 3).astype("float32") * np.float32([[[[1]]], [[[100]]]])
        x = tf.zeros([2 * repeats, 2, 2, 3])
        y = example.quantize_gradient(x, bits)
        with tf.Session() as session:
            values = session.run(tf.gradients(y, x, tf.constant(np.tile(dy, [repeats, 1, 1, 1])))[0])
        values = values.reshape(repeats, *dy.shape)
        step = 2 * np.abs(dy).max(axis=(1, 2, 3), keepdims=True) / (2**bits - 1)
        np.testing.assert_allclose(np.rint(values / step + 0.5) - 0.5, values / step, atol=1e-3)
        assert (np.abs(values - dy) <= step * 1.001).all()
        inside = np.abs(dy) < np.abs(dy).max(axis=(1, 2, 3), keepdims=True) * 0.8  # clipping shifts the largest ones
        np.testing.assert_array_less((np.abs(values.mean(axis=0) - dy) / step)[inside], 0.06)


class TestPack:
    @pytest.mark.parametrize("bits", [1, 2, 3])
    def test_packed_weights_can_be_restored(self, example, bits):
        """Packed weights need `bits` bits each, and have the same values after unpacking."""
        levels = 0.3 * (2 * np.arange(2**bits) / (2**bits - 1) - 1)
        weights = np.random.RandomState(0).choice(levels, [3, 3, 4, 8])
        weights[0, 0, 0, 0] = 0.3
        packed = example.pack(weights, bits)
        assert weights.size * bits == packed.nbytes * 8
        np.testing.assert_allclose(weights, unpack(packed, 0.3, bits, weights.shape), atol=1e-6)


@pytest.mark.slow
def test_two_steps(tmp_path, run_example):
    """The example writes one bit for each quantized weight, and a picture."""
    output = run_example("dorefa_digits.py", TWO_STEPS, tmp_path)
    assert "the quantized weights have 4608 bytes; as floats, they have 147456" in output
    assert 4608 * 32 == 147456
    assert (tmp_path / "log" / "kernels.png").exists()
    packed = np.load(str(tmp_path / "log" / "packed.npz"))
    assert {"conv1/W", "conv2/W", "conv3/W"} == {name for name in packed.files if "scale" not in name}
    weights = unpack(packed["conv3/W"], packed["conv3/W/scale"], 1, (3, 3, 32, 64))
    assert 2 == len(np.unique(weights))


@pytest.mark.slow
@pytest.mark.gallery
def test_accuracy(tmp_path, run_example):
    """The quantized network is at most 0.02 less accurate than the network with floats."""
    accuracies = []
    for bits in ("1,2,6", "32,32,32"):
        run_example("dorefa_digits.py", ["--bits", bits, "--log-dir", re.sub(",", "-", bits)], tmp_path)
        stats = read_stats(tmp_path / re.sub(",", "-", bits))
        accuracies.append(stats[-1]["val_accuracy"])
    assert accuracies[1] >= 0.97
    assert accuracies[0] >= accuracies[1] - 0.02
