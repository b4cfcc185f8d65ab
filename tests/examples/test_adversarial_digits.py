"""Tests of the attack in adversarial_digits.py, and of the example."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.programs import read_stats

pytest.importorskip("cv2")

from tensorpack_lite.compat import tfv1 as tf

TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "5", "--log-dir", "log"]


@pytest.fixture
def example(load_example):
    return load_example("adversarial_digits.py")


def run_attack(example, image, weights, epsilon, steps):
    """Attack a linear classifier with the given weights; all images have the label 0."""
    image = tf.constant(image, tf.float32)

    def classify(x):
        return tf.matmul(tf.reshape(x, [-1, 4]), tf.constant(weights, tf.float32))

    attacked = example.attack(classify, image, tf.zeros([image.shape[0]], tf.int32), epsilon, steps)
    with tf.Session() as session:
        return session.run(attacked)


class TestAttack:
    @pytest.mark.parametrize("steps", [0, 1, 7])
    def test_stays_in_the_ball_and_in_the_range(self, example, steps):
        """No pixel changes by more than epsilon, and all pixels stay in [0, 1]."""
        rng = np.random.RandomState(0)
        image = rng.choice([0, 0.05, 0.5, 0.97, 1], [20, 2, 2, 1])
        attacked = run_attack(example, image, rng.randn(4, 3), 0.1, steps)
        assert np.abs(attacked - image).max() <= 0.1 + 1e-6
        assert np.abs(attacked - image).max() > 0.05
        assert attacked.min() >= 0
        assert attacked.max() <= 1

    @pytest.mark.slow
    def test_finds_the_worst_corner_of_a_linear_classifier(self, example):
        """With two classes, the worst image moves each pixel by epsilon along the sign of the weight difference."""
        weights = np.array([[1, -1], [-1, 2], [0.5, 0], [-2, 0]])
        image = np.full([5, 2, 2, 1], 0.5)
        attacked = run_attack(example, image, weights, 0.1, 10)
        worst = 0.5 + 0.1 * np.sign(weights[:, 1] - weights[:, 0])
        np.testing.assert_allclose(np.tile(worst, [5, 1]), attacked.reshape(5, 4), atol=1e-5)


@pytest.mark.slow
def test_two_steps(tmp_path, run_example):
    """The fifth epoch validates both accuracies and draws attacked images."""
    run_example("adversarial_digits.py", TWO_STEPS, tmp_path)
    stats = read_stats(tmp_path / "log")
    assert "val_accuracy" not in stats[3]
    assert 0 <= stats[4]["val_robust_accuracy"] <= 1
    assert (tmp_path / "log" / "attacked.png").exists()
