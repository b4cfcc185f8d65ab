"""
Simple methods, with which the examples compare their networks.

Expect: this is a module for the examples; run one of those.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC


def get_digits(split: str) -> tuple:
    """Return scikit-learn's handwritten digits: images [N, 8, 8] in [0, 1], and labels [N]."""
    from tensorpack_lite.dataflow import dataset

    digits = dataset.Digits(split, size=8)
    return np.array(digits.images)[..., 0], np.array(digits.labels)


def svm_accuracy(train: tuple, test: tuple) -> float:
    """Return the accuracy of a support vector machine on pixels. Both splits are (images [N, ...], labels [N])."""
    images, labels = train
    classifier = SVC(C=10).fit(images.reshape(len(images), -1), labels)
    images, labels = test
    return classifier.score(images.reshape(len(images), -1), labels)


def digits_svm_accuracy() -> float:
    """Return the accuracy of a support vector machine on the 360 held-out digits of scikit-learn."""
    return svm_accuracy(get_digits("train"), get_digits("test"))


def neighbor_test(generated: np.ndarray, real: np.ndarray) -> float:
    """
    Return how often the nearest neighbor of an image tells whether it is generated or real.

    The arrays have the same shape [N, ...]. 1: all images can be told apart; 0.5: none, as for images of the same
    distribution. Below 0.5, the generated images are copies of the real ones.
    Source: Lopez-Paz, Oquab 2017, "Revisiting classifier two-sample tests".
    """
    images = np.concatenate([generated, real]).reshape(2 * len(real), -1)
    is_real = np.arange(len(images)) >= len(generated)
    neighbors = NearestNeighbors(n_neighbors=1).fit(images).kneighbors(return_distance=False)[:, 0]
    return float(np.mean(is_real[neighbors] == is_real))


def linear_robust_accuracy(train: tuple, test: tuple, epsilon: float) -> float:
    """
    Return the accuracy of logistic regression if an attacker changes each pixel, in [0, 1], by up to `epsilon`.

    The best attack on a linear classifier is known: it moves each pixel as far as allowed against the difference of the
    weights of two classes.
    """
    classifier = LogisticRegression(C=0.1, max_iter=3000).fit(train[0].reshape(len(train[0]), -1), train[1])
    images = test[0].reshape(len(test[0]), -1)
    labels = test[1]
    lowest = np.maximum(-epsilon, -images)
    highest = np.minimum(epsilon, 1 - images)
    scores = classifier.decision_function(images)
    resists = np.ones(len(images), bool)
    for other in range(len(classifier.classes_)):
        difference = classifier.coef_[labels] - classifier.coef_[other]  # [N, D]
        loss = np.minimum(difference * lowest, difference * highest).sum(axis=1)
        margin = scores[np.arange(len(labels)), labels] - scores[:, other] + loss
        resists &= (margin > 0) | (labels == other)
    return float(resists.mean())


def draw_gaussian(images: np.ndarray, count: int) -> np.ndarray:
    """Return random images [count, ...] in [0, 1] with the mean and covariances of the pixels of `images` [N, ...]."""
    rows = images.reshape(len(images), -1)
    rng = np.random.RandomState(0)
    factor = (rows - rows.mean(axis=0)) / np.sqrt(len(rows))
    samples = rows.mean(axis=0) + rng.randn(count, len(rows)) @ factor
    return np.clip(samples, 0, 1).reshape(count, *images.shape[1:])
