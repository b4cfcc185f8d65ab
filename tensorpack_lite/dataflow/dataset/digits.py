"""Handwritten digits without a download: the 1,797 that lie inside scikit-learn."""

from __future__ import annotations

import numpy as np

from ...utils.optional import load_optional
from .indexed import require_split
from .labelled_images import LabelledImages

__all__ = ["Digits"]

_SIDE = 8  # pixels of an original image
_TEST_EVERY = 5


class Digits(LabelledImages):
    """
    1,797 real handwritten digits: datapoints [float32 (size, size) in [0, 1], np.uint8 label], as Mnist's.

    The originals are 8x8 with 17 shades. Larger sizes are interpolated linearly between them, edges to edges.

    Of the images of each digit, in the order of scikit-learn, every fifth is for testing: the same 1,437 and 360 on
    every machine, with all digits in both. (Both halves have digits of the same writers.)

    Length: 1437 ("train"), 360 ("test").
    Order: a new random one each pass, or that of scikit-learn.
    Process: stays in this one.

    Args:
        train_or_test: "train" or "test".
        shuffle: in a new random order each pass (for "test" too); needs `reset_state`.
        size: height and width of the images, in pixels; 8 or more. The default is Mnist's.

    Raises:
        ValueError: another name, or a smaller size.
        ImportError: scikit-learn is not installed.

    Attributes:
        images: float32 [N, size, size, 1] in [0, 1].
        labels: uint8 [N].

    Example:
        >>> BatchData(Digits("train"), 128)

    Source: E. Alpaydin, C. Kaynak 1998, "Optical Recognition of Handwritten Digits", UCI, the part that
        `sklearn.datasets.load_digits` has.
    tensorpack: has no such data set.
    """

    def __init__(self, train_or_test: str, shuffle: bool = True, size: int = 28) -> None:
        require_split(self, train_or_test)
        if size < _SIDE:
            raise ValueError(f"Digits: size must be {_SIDE} or more, got {size}.")
        self.train_or_test = train_or_test
        images, labels = _load()
        chosen = _rows_of(train_or_test, labels)
        super().__init__(_enlarged(images[chosen], size), labels[chosen], white=16, shuffle=shuffle)


def _load() -> tuple[np.ndarray, np.ndarray]:
    """Return images [1797, 8, 8] from 0 to 16, and labels [1797]."""
    data = load_optional("sklearn.datasets", "Digits").load_digits()
    return data.images.astype(np.float32), data.target


def _rows_of(train_or_test: str, labels: np.ndarray) -> np.ndarray:
    """Choose the rows of one half, in their order: sorted by label, every fifth is for testing."""
    for_test = np.zeros(len(labels), dtype=bool)
    for_test[np.argsort(labels, kind="stable")[::_TEST_EVERY]] = True
    return np.flatnonzero(for_test if train_or_test == "test" else ~for_test)


def _enlarged(images: np.ndarray, size: int) -> np.ndarray:
    """Interpolate [N, 8, 8] to [N, size, size]: rows, then columns, by the same weights."""
    # [size, 8]: of each pixel of a row
    weights = np.stack([_interpolate(row, size) for row in np.eye(_SIDE, dtype=np.float32)], axis=1)
    return np.matmul(np.matmul(weights, images), weights.T)


def _interpolate(values: np.ndarray, size: int) -> np.ndarray:
    places = np.linspace(0, _SIDE - 1, size)
    return np.interp(places, np.arange(_SIDE), values).astype(np.float32)
