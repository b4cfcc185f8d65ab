"""Tests of the digits in scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.dataset.digits import Digits, _enlarged

datasets = pytest.importorskip("sklearn.datasets", reason="Digits lie inside scikit-learn")


@pytest.fixture(scope="module")
def original():
    """Return the images [1797, 8, 8] and the labels of scikit-learn."""
    data = datasets.load_digits()
    return data.images, data.target


def test_splits_are_complete(original):
    """Both splits together contain each image of scikit-learn with its label exactly once."""
    images, labels = original
    halves = [Digits(name, size=8) for name in ("train", "test")]
    got = sorted((half.labels[k], half.images[k].tobytes()) for half in halves for k in range(len(half)))
    expected = sorted(zip(labels, ((image / 16).astype(np.float32).tobytes() for image in images)))
    assert expected == got


def test_every_digit_is_in_both_splits():
    """A fifth of the images of each digit, rounded, is for testing."""
    train, test = (np.bincount(Digits(name, size=8).labels) for name in ("train", "test"))
    assert 10 == len(train) == len(test)
    assert np.abs(test - (train + test) / 5).max() < 1


def test_the_split_is_the_same_everywhere():
    """The splits start with the expected labels."""
    assert [1, 3, 5, 6, 7, 8, 9, 0, 1, 2] == Digits("train", size=8).labels[:10].tolist()
    assert [0, 2, 4, 7, 1, 6, 8, 9, 5, 3] == Digits("test", size=8).labels[:10].tolist()


def test_datapoints_are_those_of_mnist():
    """Datapoints are [float32 (28, 28) in [0, 1], np.uint8], shuffled by default."""
    digits = Digits("test")
    assert digits.shuffle
    digits.reset_state()
    image, label = next(iter(digits))
    assert ((28, 28), np.float32, np.uint8) == (image.shape, image.dtype, type(label))
    assert (0, 1) == (digits.images.min(), digits.images.max())
    assert (360, 28, 28, 1) == digits.images.shape


class TestEnlarging:
    def test_linear_image(self):
        """Interpolation is exact on linear images, up to the edges."""
        plane = np.add.outer(np.arange(8.0), 2 * np.arange(8.0))[np.newaxis]
        places = np.linspace(0, 7, 28)
        np.testing.assert_allclose(np.add.outer(places, 2 * places)[np.newaxis], _enlarged(plane, 28), rtol=1e-5)
