"""Noise: Gaussian, salt and pepper, and what JPEG leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._check import check_probability, check_range
from ._opencv import opencv, require_opencv
from ._values import from_float, is_gray, require_colour, to_float
from .base import PhotometricAugmentor

__all__ = ["GaussianNoise", "JpegNoise", "SaltPepperNoise"]


class JpegNoise(PhotometricAugmentor):
    """
    Compress to JPEG and read it back.

    Args:
        quality_range: (low, high): the quality is a whole number, low <= quality < high, up to 100.

    Raises:
        TypeError, ValueError: `quality_range` is not a range; when it runs, neither one nor three channels.
        ImportError: OpenCV is not installed.

    Note:
        Images of floating types are cut to [0, 255] and to whole values.

    tensorpack: same; there a grey image gets three channels.
    """

    def __init__(self, quality_range: tuple[int, int] = (40, 100)) -> None:
        super().__init__()
        require_opencv(self)
        quality_range = check_range(self, "quality_range", quality_range)
        if quality_range[0] == quality_range[1]:
            raise ValueError(
                f"JpegNoise: quality_range takes (low, high) with low < high, got {quality_range!r}."
            )
        self.quality_range = quality_range

    def _get_augment_params(self, img: Any) -> Any:
        return int(self.rng.randint(*self.quality_range))

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        cv2 = opencv("JpegNoise")
        if not is_gray(img):
            require_colour(img, "JpegNoise")
        whole = from_float(to_float(img), np.dtype(np.uint8), clip=True)
        _, encoded = cv2.imencode(".jpg", whole, [cv2.IMWRITE_JPEG_QUALITY, params])
        decoded = cv2.imdecode(encoded, cv2.IMREAD_GRAYSCALE if is_gray(img) else cv2.IMREAD_COLOR)
        return decoded.reshape(img.shape).astype(img.dtype, copy=False)


class GaussianNoise(PhotometricAugmentor):
    """
    Add N(0, sigma) to each value.

    Args:
        sigma: standard deviation, in grey values.
        clip: cut to [0, 255] images of floating types too.

    Raises:
        ValueError: `sigma` is negative.

    Note:
        A transform fits images of the shape that it was drawn for.

    tensorpack: same.
    """

    def __init__(self, sigma: float = 1, clip: bool = True) -> None:
        super().__init__()
        if sigma < 0:
            raise ValueError(f"GaussianNoise: sigma must not be negative, got {sigma!r}.")
        self.sigma, self.clip = sigma, clip

    def _get_augment_params(self, img: Any) -> Any:
        return (self.rng.standard_normal(img.shape) * self.sigma).astype(np.float32)

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        return from_float(to_float(img) + params, img.dtype, self.clip)


class SaltPepperNoise(PhotometricAugmentor):
    """
    Set some values to 255 and some to 0.

    Args:
        white_prob: how probable it is that a value becomes 255.
        black_prob: how probable it is that it becomes 0. Each channel of a pixel is drawn for itself.

    Raises:
        ValueError: not probabilities, or their sum is more than 1.

    Note:
        A transform fits images of the shape that it was drawn for.

    tensorpack: same; there the image is changed in place.
    """

    def __init__(self, white_prob: float = 0.05, black_prob: float = 0.05) -> None:
        super().__init__()
        check_probability(self, "white_prob", white_prob)
        check_probability(self, "black_prob", black_prob)
        check_probability(self, "white_prob + black_prob", white_prob + black_prob)
        self.white_prob, self.black_prob = white_prob, black_prob

    def _get_augment_params(self, img: Any) -> Any:
        return self.rng.uniform(size=img.shape)

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        noisy = img.copy()
        noisy[params >= 1 - self.white_prob] = 255
        noisy[params < self.black_prob] = 0
        return noisy
