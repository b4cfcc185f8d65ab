"""Tests of the losses of similarity_digits.py against NumPy, and of the example."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.programs import read_figures

pytest.importorskip("cv2")
pytest.importorskip("matplotlib")

import cv2

import tensorpack_lite
from tensorpack_lite.compat import tfv1 as tf

LOSSES = ["center", "contrastive", "soft_triplet", "triplet"]
TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log"]
LABEL = np.array([0, 1, 0, 2, 1, 2, 2], "int32")
X = np.random.RandomState(0).randn(7, 3).astype("float32") / 2
DISTANCES = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
SAME = LABEL[:, None] == LABEL[None]


@pytest.fixture
def example(load_example):
    return load_example("similarity_digits.py")


def compute(tensor):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(tensor)


def triplets():
    """Yield d(anchor, positive) - d(anchor, negative) of all triplets, with squared distances."""
    for a in range(7):
        for p in range(7):
            for n in range(7):
                if LABEL[a] == LABEL[p] and LABEL[a] != LABEL[n]:
                    yield np.sum((X[a] - X[p]) ** 2) - np.sum((X[a] - X[n]) ** 2)


class TestLosses:
    @pytest.mark.slow
    def test_gradients_are_finite(self, example):
        """The gradient is finite also for images with the same embedding."""
        x = tf.zeros([7, 3])
        for kind in LOSSES[1:]:
            cost = example.metric_loss(x, tf.constant(LABEL), kind)
            assert np.isfinite(compute(tf.gradients(cost, x)[0])).all()

    def test_center(self, example):
        """The loss is the cross entropy plus half of the squared distances to the centers, which then move."""
        with tensorpack_lite.TowerContext("", is_training=True):
            cost = example.center_loss(tf.constant(X), tf.constant(LABEL), 3, weight=0.1, rate=0.5)
        variables = {v.op.name: v for v in tf.global_variables()}
        (update,) = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            value, centers, w, b = session.run(
                [cost, variables["centers"], variables["scores/W"], variables["scores/b"]]
            )
            session.run(update)
            moved = session.run(variables["centers"])
        scores = X @ w + b
        entropy = np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(7), LABEL])
        np.testing.assert_allclose(entropy + 0.1 * ((centers[LABEL] - X) ** 2).sum() / 2, value, rtol=1e-4)
        for c in range(3):
            members = X[LABEL == c]
            change = (centers[c] - members).sum(axis=0) / (1 + len(members))
            np.testing.assert_allclose(centers[c] - 0.5 * change, moved[c], rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            ("contrastive", lambda: np.where(SAME, DISTANCES**2, np.maximum(1 - DISTANCES, 0) ** 2).mean()),
            ("triplet", lambda: np.mean([max(difference + 1, 0) for difference in triplets()])),
            ("soft_triplet", lambda: np.mean([np.log1p(np.exp(difference)) for difference in triplets()])),
        ],
    )
    def test_metric_loss(self, example, kind, expected):
        """Pairs cost d**2 or max(0, 1 - d)**2; triplets max(0, d(a, p) - d(a, n) + 1) or the log of 1 + exp of the difference."""
        value = compute(example.metric_loss(tf.constant(X), tf.constant(LABEL), kind))
        np.testing.assert_allclose(expected(), value, rtol=1e-4)


class TestData:
    def test_digits(self, example):
        """Training has the images of 0 to 7 in the training split, in four orientations; validation has all others."""
        (images, label), (held_out, held_out_label) = example.get_data("digits")
        assert set(range(32)) == set(label)
        assert set(range(10)) == set(held_out_label)
        assert 1797 == len(images) / 4 + len(held_out)
        assert 354 == (held_out_label >= 8).sum()
        assert (28, 28) == images.shape[1:]

    def test_omniglot(self, example, tmp_path):
        """Characters are classes, the last fifth is held out, and strokes become white."""
        for k in range(10):
            folder = tmp_path / f"alphabet{k // 5}" / f"character{k % 5}"
            folder.mkdir(parents=True)
            image = np.full([105, 105], 255, "uint8")
            image[50:60, 10 * k : 10 * k + 10] = 0
            cv2.imwrite(str(folder / "1.png"), image)
        (images, label), (_, held_out_label) = example.get_data(str(tmp_path))
        assert list(range(32)) == list(label)
        assert [8, 9] == list(held_out_label)
        assert 0 == images[:, 0].max()
        np.testing.assert_array_less(0.5, images.max(axis=(1, 2)))

    def test_groups(self, example):
        """48 consecutive images have eight classes, with six images each."""
        label = np.repeat(np.arange(10), 3)
        flow = example.Groups(label * 10, label)
        flow.reset_state()
        points = iter(flow)
        for _ in range(3):
            images, labels = zip(*[next(points) for _ in range(48)])
            assert [6] * 8 == list(np.unique(labels, return_counts=True)[1])
            assert [10 * c for c in labels] == list(images)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss",
    ["center"]
    + [pytest.param(n, marks=[pytest.mark.any_tensorflow, pytest.mark.proof]) for n in LOSSES if n != "center"],
)
def test_two_steps(tmp_path, run_example, loss):
    """The example reports recall@1 and draws a plot."""
    run_example("similarity_digits.py", ["--loss", loss, *TWO_STEPS], tmp_path)
    assert all(0.3 < recall <= 1 for recall in read_figures(tmp_path / "log").values())
    assert (tmp_path / "log" / "embedding.png").exists()
