"""
Photometric augmentors: brightness, contrast, color, blur, normalization.

Pixel values are 0 to 255 for every dtype. Results of uint8 images are clipped to this range; those of
floating types are clipped unless `clip=False`.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from ...utils.checks import check_fraction, check_positive
from ...utils.develop import log_deprecated
from ._check import check_integer_range, check_range
from ._opencv import keep_shape_and_type, opencv, require_opencv
from ._values import GRAY_WEIGHTS_RGB, from_float, gray_of, is_gray, require_color, to_float
from .base import PhotometricAugmentor


class Brightness(PhotometricAugmentor):
    """
    Augmentor that adds a random number to all pixels.

    Args:
        delta: the number is uniform in [-delta, delta], on the scale 0 to 255.
        clip: whether to clip images of floating types to [0, 255].

    Raises:
        ValueError: `delta` is not positive.
    """

    def __init__(self, delta: float, clip: bool = True) -> None:
        super().__init__()
        self.delta = check_positive("Brightness: delta", delta)
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(-self.delta, self.delta)

    def _augment(self, img: np.ndarray, params: float) -> np.ndarray:
        return from_float(to_float(img) + params, img.dtype, self.clip)


class BrightnessScale(PhotometricAugmentor):
    """
    Augmentor that multiplies all pixels by a random factor.

    Args:
        range: (low, high) of the factor.
        clip: whether to clip images of floating types to [0, 255].

    Raises:
        TypeError, ValueError: `range` is not a range.
    """

    def __init__(self, range: tuple[float, float], clip: bool = True) -> None:
        super().__init__()
        self.range = check_range("BrightnessScale: range", range)
        self.clip = clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, params: float) -> np.ndarray:
        return from_float(to_float(img) * params, img.dtype, self.clip)


class Contrast(PhotometricAugmentor):
    """
    Augmentor that changes the distance of all pixels from the mean of the image: x * r + mean * (1 - r).

    Args:
        factor_range: (low, high) of r.
        rgb: whether the channels are in RGB order (True) or BGR order (False); all channels then use the mean of the
            grayscale image. None: each channel uses its own mean.
        clip: whether to clip images of floating types to [0, 255].

    Raises:
        TypeError, ValueError: `factor_range` is not a range.
    """

    def __init__(self, factor_range: tuple[float, float], rgb: bool | None = None, clip: bool = True) -> None:
        super().__init__()
        self.factor_range = check_range("Contrast: factor_range", factor_range)
        self.rgb, self.clip = rgb, clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.factor_range)

    def _augment(self, img: np.ndarray, params: float) -> np.ndarray:
        values = to_float(img)
        mean = values.mean(axis=0, keepdims=True).mean(axis=1, keepdims=True)  # both axes at once are slower
        if self.rgb is not None and not is_gray(img):
            require_color(img, "Contrast")
            weights = np.array(GRAY_WEIGHTS_RGB if self.rgb else GRAY_WEIGHTS_RGB[::-1], values.dtype)
            mean = (mean * weights).sum()  # the mean of the grayscale image, which is linear in the channels
        return from_float(values * params + mean * (1 - params), img.dtype, self.clip)


class Saturation(PhotometricAugmentor):
    """
    Augmentor that changes the distance of all colors from gray: x * v + gray * (1 - v).

    Images with one channel do not change.

    Args:
        alpha: v is uniform in [1 - alpha, 1 + alpha]; 0 <= alpha < 1.
        rgb: whether the channels are in RGB order; otherwise BGR.
        clip: whether to clip images of floating types to [0, 255].

    Raises:
        ValueError: `alpha` is out of range; (when applied) the image does not have one or three channels.
        ImportError: OpenCV is not installed.

    Source: fb.resnet.torch.
    """

    def __init__(self, alpha: float = 0.4, rgb: bool = True, clip: bool = True) -> None:
        super().__init__()
        require_opencv(self)
        self.alpha = check_fraction("Saturation: alpha", alpha)
        self.rgb, self.clip = rgb, clip

    def _get_augment_params(self, img: np.ndarray) -> float:
        return 1 + self._rand_range(-self.alpha, self.alpha)

    def _augment(self, img: np.ndarray, params: float) -> np.ndarray:
        if is_gray(img):
            return img
        gray = gray_of(img, self.rgb, "Saturation")
        return from_float(to_float(img) * params + to_float(gray) * (1 - params), img.dtype, self.clip)


class Hue(PhotometricAugmentor):
    """
    Augmentor that rotates the colors: it adds a random number to the hue, which is on a circle of 180.

    Images with one channel do not change.

    Args:
        range: (low, high) of the number; 180 is a full rotation.
        rgb: whether the channels are in RGB order; otherwise BGR.

    Raises:
        TypeError, ValueError: `range` is not a range; (when applied) the image does not have one or three channels.
        ImportError: OpenCV is not installed.
    """

    def __init__(self, range: tuple[float, float] = (0, 180), rgb: bool = True) -> None:
        super().__init__()
        require_opencv(self)
        self.range = check_range("Hue: range", range)
        self.rgb = rgb

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, params: float) -> np.ndarray:
        if is_gray(img):
            return img
        require_color(img, "Hue")
        cv2 = opencv("Hue")
        to_hsv, from_hsv = (
            (cv2.COLOR_RGB2HSV, cv2.COLOR_HSV2RGB) if self.rgb else (cv2.COLOR_BGR2HSV, cv2.COLOR_HSV2BGR)
        )
        is_uint8 = img.dtype == np.uint8
        hsv = cv2.cvtColor(img if is_uint8 else img.astype(np.float32), to_hsv)
        if is_uint8:  # OpenCV stores half degrees, which fit into a byte
            hsv[:, :, 0] = (hsv[:, :, 0].astype(np.int32) + int(params)) % 180
        else:
            hsv[:, :, 0] = (hsv[:, :, 0] + 2 * params) % 360
        return cv2.cvtColor(hsv, from_hsv).astype(img.dtype, copy=False)


class Lighting(PhotometricAugmentor):
    """
    Augmentor that adds one color to all pixels: noise along the principal components of the colors,
    eigvec @ (eigval * N(0, std)).

    Args:
        std: standard deviation of the three random numbers, which are drawn for each image.
        eigval: `[3]`, the variance of each component.
        eigvec: `[3, 3]`, the components as columns.
        clip: whether to clip images of floating types to [0, 255].

    Raises:
        ValueError: `eigval` or `eigvec` has another shape; (when applied) the image does not have three channels.

    Source: Krizhevsky, Sutskever, Hinton 2012, "ImageNet classification with deep convolutional neural networks", 4.1.
    """

    def __init__(
        self,
        std: float,
        eigval: np.ndarray | Sequence[float],
        eigvec: np.ndarray | Sequence[Sequence[float]],
        clip: bool = True,
    ) -> None:
        super().__init__()
        eigval, eigvec = np.asarray(eigval, np.float64), np.asarray(eigvec, np.float64)
        if eigval.shape != (3,) or eigvec.shape != (3, 3):
            raise ValueError(
                f"Lighting: expected eigval of shape (3,) and eigvec of shape (3, 3), got {eigval.shape} and {eigvec.shape}."
            )
        self.std, self.eigval, self.eigvec, self.clip = std, eigval, eigvec, clip

    def _get_augment_params(self, img: np.ndarray) -> np.ndarray:
        require_color(img, "Lighting")
        return self.eigvec @ (self.eigval * self.rng.normal(0.0, self.std, size=3))

    def _augment(self, img: np.ndarray, params: np.ndarray) -> np.ndarray:
        values = to_float(img)
        values += params.astype(values.dtype)
        return from_float(values, img.dtype, self.clip)


class Gamma(PhotometricAugmentor):
    """
    Augmentor that changes the gamma: 255 * (x / 255) ** (1 / (1 + g)).

    Args:
        range: (low, high) of g, above -1. 0 changes nothing; larger values are brighter.

    Raises:
        TypeError, ValueError: `range` is not a range above -1.

    Note:
        The result is looked up in a table of 256 values, so images of floating types are first rounded.
    """

    def __init__(self, range: tuple[float, float] = (-0.5, 0.5)) -> None:
        super().__init__()
        self.range = check_range("Gamma: range", range)
        if self.range[0] <= -1:
            raise ValueError(f"Gamma: range: expected (low, high) with -1 < low, got {range!r}.")

    def _get_augment_params(self, img: np.ndarray) -> float:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, params: float) -> np.ndarray:
        table = np.rint((np.arange(256) / 255.0) ** (1.0 / (1.0 + float(params))) * 255.0).astype(np.uint8)
        whole = img if img.dtype == np.uint8 else np.clip(np.rint(img), 0, 255).astype(np.uint8)
        return np.take(table, whole).astype(img.dtype, copy=False)


class GaussianBlur(PhotometricAugmentor):
    """
    Augmentor that blurs the image with a Gaussian kernel of random size.

    Args:
        size_range: (low, high). The kernel has 2k + 1 pixels, low <= k < high.
        sigma_range: (low, high) of the standard deviation in pixels. 0: OpenCV derives it from the size.
        symmetric: whether both directions use the same size and standard deviation.
        max_size: has no effect.

    Raises:
        TypeError, ValueError: an argument is not a range, or `size_range` is empty.
        ImportError: OpenCV is not installed.
    """

    def __init__(
        self,
        size_range: tuple[int, int] = (0, 3),
        sigma_range: tuple[float, float] = (0, 0),
        symmetric: bool = True,
        max_size: int | None = None,
    ) -> None:
        super().__init__()
        require_opencv(self)
        self.size_range = check_integer_range("GaussianBlur: size_range", size_range, 0)
        self.sigma_range = check_range("GaussianBlur: sigma_range", sigma_range)
        if max_size is not None:
            log_deprecated("GaussianBlur(max_size=...)", "It has no effect: use size_range.", "", 3)
        self.symmetric, self.max_size = symmetric, max_size

    def _get_augment_params(self, img: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        half = self.rng.randint(self.size_range[0], self.size_range[1], size=2)
        sigma = self._rand_range(self.sigma_range[0], self.sigma_range[1], size=2)
        if self.symmetric:
            half[1], sigma[1] = half[0], sigma[0]
        return 2 * half + 1, sigma

    def _augment(self, img: np.ndarray, params: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        size, sigma = params
        blur = opencv("GaussianBlur").GaussianBlur
        kernel = int(size[0]), int(size[1])
        return keep_shape_and_type(blur, img, kernel, sigmaX=float(sigma[0]), sigmaY=float(sigma[1]))


class Clip(PhotometricAugmentor):
    """
    Augmentor that clips pixel values.

    Args:
        min: the lower bound.
        max: the upper bound.

    Raises:
        ValueError: min > max.
    """

    def __init__(self, min: float = 0, max: float = 255) -> None:
        super().__init__()
        self.min, self.max = check_range("Clip: (min, max)", (min, max))

    def _augment(self, img: np.ndarray, params: object) -> np.ndarray:
        return np.clip(to_float(img), self.min, self.max).astype(img.dtype)


class MeanVarianceNormalize(PhotometricAugmentor):
    """
    Augmentor that normalizes an image to mean 0 and variance 1, in float32.

    Args:
        all_channel: whether all channels share one mean and variance.

    Note:
        The standard deviation is at least 1 / sqrt(h * w * c), so a constant image becomes 0.
    """

    def __init__(self, all_channel: bool = True) -> None:
        super().__init__()
        self.all_channel = all_channel

    def _augment(self, img: np.ndarray, params: object) -> np.ndarray:
        axis = None if self.all_channel else (0, 1)
        values = img.astype(np.float32)
        mean, std = values.mean(axis=axis, keepdims=True), values.std(axis=axis, keepdims=True)
        return (values - mean) / np.maximum(std, np.float32(1.0 / np.sqrt(img.size)))


class MinMaxNormalize(PhotometricAugmentor):
    """
    Augmentor that scales the values linearly to a range, in float32.

    Args:
        min: the new minimum.
        max: the new maximum.
        all_channel: whether all channels share one scale.

    Note:
        A constant image or channel becomes `min`.
    """

    def __init__(self, min: float = 0, max: float = 255, all_channel: bool = True) -> None:
        super().__init__()
        self.min, self.max, self.all_channel = min, max, all_channel

    def _augment(self, img: np.ndarray, params: object) -> np.ndarray:
        axis = None if self.all_channel else (0, 1)
        values = img.astype(np.float32)
        lowest, highest = values.min(axis=axis, keepdims=True), values.max(axis=axis, keepdims=True)
        extent = np.where(highest > lowest, highest - lowest, np.float32(1))
        return (self.max - self.min) * (values - lowest) / extent + np.float32(self.min)
