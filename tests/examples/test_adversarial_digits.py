"""Tests of the attack in adversarial_digits.py, and of the example."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("tensorflow")
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

    def test_starts_at_a_random_point(self, example):
        """Without steps, the attack returns different points of the ball for equal images."""
        attacked = run_attack(example, np.full([2, 2, 2, 1], 0.5), np.ones([4, 2]), 0.1, 0)
        assert np.abs(attacked[0] - attacked[1]).max() > 1e-3

    def test_no_gradient_flows_through_the_attack(self, example):
        """The attacked image is a constant for the training of the classifier."""
        w = tf.get_variable("w", [4, 2])
        image = tf.fill([3, 2, 2, 1], 0.5)
        label = tf.zeros([3], tf.int32)
        attacked = example.attack(lambda x: tf.matmul(tf.reshape(x, [-1, 4]), w), image, label, 0.1, 2)
        assert [None] == tf.gradients(attacked, [w])


@pytest.mark.slow
def test_two_steps(tmp_path, run_example):
    """The fifth epoch validates both accuracies and draws attacked images."""
    run_example("adversarial_digits.py", TWO_STEPS, tmp_path)
    stats = json.loads((tmp_path / "log" / "stats.json").read_text(encoding="utf-8"))
    assert "val_accuracy" not in stats[3]
    assert 0 <= stats[4]["val_robust_accuracy"] <= 1
    assert (tmp_path / "log" / "attacked.png").exists()


@pytest.mark.slow
@pytest.mark.gallery
def test_accuracy_under_attack(tmp_path, run_example):
    """Under PGD-20 with an epsilon of 0.1, the accuracy is at least 0.80; without attack, it is at least 0.95."""
    run_example("adversarial_digits.py", ["--log-dir", "log"], tmp_path)
    stats = json.loads((tmp_path / "log" / "stats.json").read_text(encoding="utf-8"))[-1]
    assert stats["val_robust_accuracy"] >= 0.80
    assert stats["val_accuracy"] >= 0.95
