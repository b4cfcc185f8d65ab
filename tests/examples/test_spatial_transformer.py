"""Tests of the sampler and the data of spatial_transformer.py, and of the example."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.programs import read_stats

pytest.importorskip("cv2")

import cv2

from tensorpack_lite.compat import tfv1 as tf

TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log"]


@pytest.fixture
def example(load_example):
    return load_example("spatial_transformer.py")


def sample(example, image, theta, size):
    with tf.Session() as session:
        return session.run(example.sample(tf.constant(image), tf.constant(theta, tf.float32), size))


class TestSample:
    def test_equals_opencv_inside_and_black_outside(self, example):
        """Any affine map gives the values of cv2.remap with bilinear interpolation."""
        rng = np.random.RandomState(1)
        image = rng.rand(1, 9, 11).astype("float32")
        theta = np.array([[[0.9, -0.4, 0.1], [0.3, 1.1, -0.2]]], "float32")
        y, x = np.meshgrid(np.linspace(-1, 1, 8), np.linspace(-1, 1, 8), indexing="ij")
        columns = (theta[0, 0, 0] * x + theta[0, 0, 1] * y + theta[0, 0, 2] + 1) / 2 * 10
        rows = (theta[0, 1, 0] * x + theta[0, 1, 1] * y + theta[0, 1, 2] + 1) / 2 * 8
        expected = np.zeros([8, 8])
        for i in range(9):
            for j in range(11):
                expected += (
                    image[0, i, j] * np.maximum(1 - np.abs(rows - i), 0) * np.maximum(1 - np.abs(columns - j), 0)
                )
        remapped = cv2.remap(
            image[0], columns.astype("float32"), rows.astype("float32"), cv2.INTER_LINEAR, borderMode=0
        )
        values = sample(example, image, theta, 8)[0]
        np.testing.assert_allclose(expected, values, atol=1e-4)
        np.testing.assert_allclose(remapped, values, atol=0.04)  # OpenCV rounds positions to 1/32 pixel
        outside = (columns < -1) | (columns > 11) | (rows < -1) | (rows > 9)
        assert outside.any()
        assert 0 == np.abs(values[outside]).max()

    def test_gradient_of_the_position(self, example):
        """On a ramp, moving the glimpse by one unit of x changes each value by half of the width."""
        image = np.tile(np.arange(9, dtype="float32"), [1, 9, 1])
        theta = tf.constant([[[0.5, 0.0, 0.03], [0.0, 0.5, 0.03]]])
        values = example.sample(tf.constant(image), theta, 4)
        with tf.Session() as session:
            gradient = session.run(tf.gradients(tf.reduce_mean(values), theta)[0])
        np.testing.assert_allclose([4, 0], gradient[0, :, 2], atol=1e-4)


def test_sums(example):
    """A datapoint has an image of each digit, and their sum."""
    flow = example.FixedSizeData(example.Sums("test"), 200)
    flow.reset_state()
    labels = []
    for image, label in flow:
        assert (2, 24, 24) == image.shape
        np.testing.assert_array_less(0.5, image.max(axis=(1, 2)))
        labels.append(label)
    assert 200 == len(labels)
    assert set(labels) <= set(range(19))
    assert abs(np.mean(labels) - 9) < 1.5
    assert np.int32 == labels[0].dtype


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], pytest.param(["--plain"], marks=pytest.mark.any_tensorflow)])
def test_two_steps(tmp_path, run_example, arguments):
    """The example validates on 1,000 images and draws glimpses."""
    run_example("spatial_transformer.py", [*arguments, *TWO_STEPS], tmp_path)
    stats = read_stats(tmp_path / "log")[-1]
    assert 0.5 < stats["val_error"] <= 1
    assert (tmp_path / "log" / "glimpses.png").exists()


@pytest.mark.slow
@pytest.mark.gallery
def test_transformers_halve_the_error(tmp_path, run_example):
    """With transformers, the error is at most half of that of the same network without them."""
    errors = []
    for arguments in (["--log-dir", "log"], ["--plain", "--log-dir", "plain"]):
        run_example("spatial_transformer.py", arguments, tmp_path)
        stats = read_stats(tmp_path / arguments[-1])
        errors.append(stats[-1]["val_error"])
    assert errors[0] <= errors[1] / 2
