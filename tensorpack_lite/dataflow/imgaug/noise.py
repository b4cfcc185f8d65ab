"""Noise: Gaussian, salt and pepper, and JPEG artifacts."""

from __future__ import annotations

import numpy as np

from ...utils.checks import check_at_least, check_between
from ._check import check_integer_range
from ._opencv import opencv, require_opencv
from ._values import from_float, is_gray, require_color, to_float
from .base import PhotometricAugmentor


class JpegNoise(PhotometricAugmentor):
    """
    Augmentor that compresses the image to JPEG and decompresses it.

    Args:
        quality_range: (low, high). The quality is an integer, low <= quality < high, at most 100.

    Raises:
        TypeError, ValueError: `quality_range` is not a range; (when applied) the image does not have one or three
            channels.
        ImportError: OpenCV is not installed.

    Note:
        Images of floating types are clipped to [0, 255] and lose their fractions.
    """

    def __init__(self, quality_range: tuple[int, int] = (40, 100)) -> None:
        super().__init__()
        require_opencv(self)
        self.quality_range = check_integer_range("JpegNoise: quality_range", quality_range, 0)

    def _get_augment_params(self, img: np.ndarray) -> int:
        return int(self.rng.randint(*self.quality_range))

    def _augment(self, img: np.ndarray, params: int) -> np.ndarray:
        cv2 = opencv("JpegNoise")
        if not is_gray(img):
            require_color(img, "JpegNoise")
        whole = from_float(to_float(img), np.dtype(np.uint8), clip=True)
        _, encoded = cv2.imencode(".jpg", whole, [cv2.IMWRITE_JPEG_QUALITY, params])
        decoded = cv2.imdecode(encoded, cv2.IMREAD_GRAYSCALE if is_gray(img) else cv2.IMREAD_COLOR)
        return decoded.reshape(img.shape).astype(img.dtype, copy=False)


class GaussianNoise(PhotometricAugmentor):
    """
    Augmentor that adds N(0, sigma) to each value.

    Args:
        sigma: standard deviation, on the scale 0 to 255.
        clip: whether to clip images of floating types to [0, 255].

    Raises:
        ValueError: `sigma` is negative.

    Note:
        A transform applies only to images of the shape for which it was drawn.
    """

    def __init__(self, sigma: float = 1, clip: bool = True) -> None:
        super().__init__()
        self.sigma = check_at_least("GaussianNoise: sigma", sigma, 0)
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> np.ndarray:
        return (self.rng.standard_normal(img.shape) * self.sigma).astype(np.float32)

    def _augment(self, img: np.ndarray, params: np.ndarray) -> np.ndarray:
        return from_float(to_float(img) + params, img.dtype, self.clip)


class SaltPepperNoise(PhotometricAugmentor):
    """
    Augmentor that sets random values to 255 or 0, independently for each channel of a pixel.

    Args:
        white_prob: the probability that a value becomes 255.
        black_prob: the probability that a value becomes 0.

    Raises:
        ValueError: one of them, or their sum, is not a probability.

    Note:
        A transform applies only to images of the shape for which it was drawn.
    """

    def __init__(self, white_prob: float = 0.05, black_prob: float = 0.05) -> None:
        super().__init__()
        self.white_prob = check_between("SaltPepperNoise: white_prob", white_prob, 0, 1)
        self.black_prob = check_between("SaltPepperNoise: black_prob", black_prob, 0, 1)
        check_between("SaltPepperNoise: white_prob + black_prob", white_prob + black_prob, 0, 1)

    def _get_augment_params(self, img: np.ndarray) -> np.ndarray:
        return self.rng.uniform(size=img.shape)

    def _augment(self, img: np.ndarray, params: np.ndarray) -> np.ndarray:
        noisy = img.copy()
        noisy[params >= 1 - self.white_prob] = 255
        noisy[params < self.black_prob] = 0
        return noisy
