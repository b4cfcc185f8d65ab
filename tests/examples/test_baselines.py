"""Tests of the simple methods in examples/data/baselines.py."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")


@pytest.fixture
def baselines(load_example):
    return load_example("data/baselines.py")


def test_the_best_attack_on_a_linear_classifier(baselines):
    """With one pixel and two classes, an attack by epsilon moves the border between them by epsilon."""
    x = np.concatenate([np.linspace(0, 0.35, 50), np.linspace(0.65, 1, 50)])[:, None]
    y = np.repeat([0, 1], 50)
    rows = np.stack([x[:, 0], 1 - x[:, 0], x[:, 0]], axis=1)
    labels = np.where(y == 0, 0, 2)  # three classes, of which one is far from both
    train = np.concatenate([rows, np.full([50, 3], 0.0)]), np.concatenate([labels, np.ones(50, int)])
    test = np.array([[0.2, 0.8, 0.2], [0.45, 0.55, 0.45], [0.9, 0.1, 0.9]]), np.array([0, 0, 2])
    clean = baselines.linear_robust_accuracy(train, test, 0.0)
    attacked = [baselines.linear_robust_accuracy(train, test, epsilon) for epsilon in (0.05, 0.2, 1.0)]
    assert 1 == clean >= attacked[0] >= attacked[1] >= attacked[2] == 0


def test_neighbors_tell_far_images_apart(baselines):
    """Far images are always told apart, copies of the real ones never, and images of the same distribution in half of all cases."""
    rng = np.random.RandomState(0)
    real = rng.randn(200, 4, 4)
    assert 1 == baselines.neighbor_test(real + 50, real)
    assert 0 == baselines.neighbor_test(real + 1e-6, real)
    assert 0.5 == pytest.approx(baselines.neighbor_test(rng.randn(200, 4, 4), real), abs=0.1)


def test_gaussian(baselines):
    """Samples of the Gaussian have the mean and the covariances of the images."""
    rng = np.random.RandomState(1)
    images = 0.5 + 0.05 * rng.randn(500, 3) @ np.array([[1, 0.8, 0], [0, 0.6, 0], [0, 0, 1]])
    samples = baselines.draw_gaussian(images, 20000)
    np.testing.assert_allclose(images.mean(axis=0), samples.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(np.cov(images.T), np.cov(samples.T), atol=2e-4)
