"""The 1,797 handwritten digits in scikit-learn, which need no download."""

from __future__ import annotations

import numpy as np

from ...utils.checks import check_at_least, check_choice
from ...utils.optional import load_optional
from .indexed import LabelledImages

_SIDE = 8  # pixels of an original image
_TEST_EVERY = 5


class Digits(LabelledImages):
    """
    1,797 real handwritten digits: datapoints [float32 (size, size) in [0, 1], np.uint8 label], like those of Mnist.

    The originals are 8x8 with 17 shades. Larger sizes are interpolated linearly; the edges are aligned.

    Every fifth image of each digit, in the order of scikit-learn, is for testing. So both splits, with 1,437 and 360
    images, are the same on every machine and contain all digits. (They contain digits of the same writers.)

    Length: 1437 ("train"), 360 ("test").
    Order: a new random order in each pass, or that of scikit-learn.
    Process: runs in the current process.

    Args:
        train_or_test: "train" or "test".
        shuffle: whether to use a new random order in each pass (also for "test").
        size: height and width of the images in pixels; >= 8. The default is the size of Mnist.

    Raises:
        ValueError: unknown name, or `size` is too small.
        ImportError: scikit-learn is not installed.

    Attributes:
        images: float32 [N, size, size, 1] in [0, 1].
        labels: uint8 [N].

    Example:
        >>> BatchData(Digits("train"), 128)

    Source: E. Alpaydin, C. Kaynak 1998, "Optical Recognition of Handwritten Digits", UCI, the part in
        `sklearn.datasets.load_digits`.
    """

    def __init__(self, train_or_test: str, shuffle: bool = True, size: int = 28) -> None:
        self.train_or_test = check_choice("Digits: train_or_test", train_or_test, ("train", "test"))
        check_at_least("Digits: size", size, _SIDE)
        data = load_optional("sklearn.datasets", "Digits").load_digits()  # images [1797, 8, 8], 0 to 16
        for_test = np.zeros(len(data.target), dtype=bool)
        for_test[np.argsort(data.target, kind="stable")[::_TEST_EVERY]] = True
        chosen = for_test if train_or_test == "test" else ~for_test
        images = _enlarged(data.images[chosen].astype(np.float32), size)
        super().__init__(images, data.target[chosen], white=16, shuffle=shuffle)


def _enlarged(images: np.ndarray, size: int) -> np.ndarray:
    """Interpolate [N, 8, 8] to [N, size, size]: rows, then columns, with the same weights."""
    positions = np.linspace(0, _SIDE - 1, size)
    columns = [np.interp(positions, np.arange(_SIDE), row) for row in np.eye(_SIDE)]
    weights = np.stack(columns, axis=1).astype(np.float32)  # [size, 8]
    return np.matmul(np.matmul(weights, images), weights.T)
