"""
Brightness, contrast, colour, blur: the values of pixels change, and nothing moves.

Values are 0 to 255, whatever the type. Results of uint8 images are cut to that; those of floating types are too,
unless `clip=False`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.develop import log_deprecated
from ._check import check_range
from ._opencv import keep_shape_and_type, opencv, require_opencv
from ._values import GRAY_WEIGHTS_RGB, from_float, gray_of, is_gray, require_colour, to_float
from .base import PhotometricAugmentor

__all__ = [
    "Brightness",
    "BrightnessScale",
    "Clip",
    "Contrast",
    "Gamma",
    "GaussianBlur",
    "Hue",
    "Lighting",
    "MeanVarianceNormalize",
    "MinMaxNormalize",
    "Saturation",
]


class Brightness(PhotometricAugmentor):
    """
    Add one number to all pixels, uniform in [-delta, delta].

    Args:
        delta: > 0, in grey values.
        clip: cut to [0, 255] images of floating types too.

    Raises:
        ValueError: `delta` is not positive.

    tensorpack: same.
    """

    def __init__(self, delta: float, clip: bool = True) -> None:
        super().__init__()
        if not delta > 0:
            raise ValueError(f"Brightness: delta must be positive, got {delta!r}.")
        self.delta, self.clip = delta, clip

    def _get_augment_params(self, img: Any) -> Any:
        return self._rand_range(-self.delta, self.delta)

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        return from_float(to_float(img) + params, img.dtype, self.clip)


class BrightnessScale(PhotometricAugmentor):
    """
    Multiply all pixels by one number.

    Args:
        range: (low, high) of the number, uniform.
        clip: cut to [0, 255] images of floating types too.

    Raises:
        TypeError, ValueError: `range` is not a range.

    tensorpack: same.
    """

    def __init__(self, range: tuple[float, float], clip: bool = True) -> None:
        super().__init__()
        range = check_range(self, "range", range)
        self.range, self.clip = range, clip

    def _get_augment_params(self, img: Any) -> Any:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        return from_float(to_float(img) * params, img.dtype, self.clip)


class Contrast(PhotometricAugmentor):
    """
    Bring pixels nearer to the mean of the image, or further away: x * r + mean * (1 - r).

    Args:
        factor_range: (low, high) of r, uniform.
        rgb: None: each channel has its mean. True or False: all channels have the mean of the grey image, whose
            channels are red, green, blue, or the other way round.
        clip: cut to [0, 255] images of floating types too.

    Raises:
        TypeError, ValueError: `factor_range` is not a range.

    tensorpack: same.
    """

    def __init__(self, factor_range: tuple[float, float], rgb: bool | None = None, clip: bool = True) -> None:
        super().__init__()
        factor_range = check_range(self, "factor_range", factor_range)
        self.factor_range, self.rgb, self.clip = factor_range, rgb, clip

    def _get_augment_params(self, img: Any) -> Any:
        return self._rand_range(*self.factor_range)

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        values = to_float(img)
        mean = values.mean(axis=0, keepdims=True).mean(axis=1, keepdims=True)  # both at once is slow
        if self.rgb is not None and not is_gray(img):
            require_colour(img, "Contrast")
            weights = np.array(GRAY_WEIGHTS_RGB if self.rgb else GRAY_WEIGHTS_RGB[::-1], values.dtype)
            mean = (mean * weights).sum()  # the mean of the grey image: grey is linear in the channels
        return from_float(values * params + mean * (1 - params), img.dtype, self.clip)


class Saturation(PhotometricAugmentor):
    """
    Bring colours nearer to grey, or further away: x * v + grey * (1 - v), v uniform in [1 - alpha, 1 + alpha].

    Grey images stay as they are.

    Args:
        alpha: >= 0, < 1.
        rgb: the channels are red, green, blue; otherwise the other way round.
        clip: cut to [0, 255] images of floating types too.

    Raises:
        ValueError: `alpha` is outside; when it runs, neither one nor three channels.
        ImportError: OpenCV is not installed.

    Source: fb.resnet.torch.
    tensorpack: same; there grey images are refused.
    """

    def __init__(self, alpha: float = 0.4, rgb: bool = True, clip: bool = True) -> None:
        super().__init__()
        require_opencv(self)
        if not 0 <= alpha < 1:
            raise ValueError(f"Saturation: alpha must be at least 0 and less than 1, got {alpha!r}.")
        self.alpha, self.rgb, self.clip = alpha, rgb, clip

    def _get_augment_params(self, img: Any) -> Any:
        return 1 + self._rand_range(-self.alpha, self.alpha)

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        if is_gray(img):
            return img
        gray = gray_of(img, self.rgb, "Saturation")
        return from_float(to_float(img) * params + to_float(gray) * (1 - params), img.dtype, self.clip)


class Hue(PhotometricAugmentor):
    """
    Turn the colours: add one number to the hue, on a circle of 180.

    Grey images stay as they are.

    Args:
        range: (low, high) of the number, uniform; a whole turn is 180.
        rgb: the channels are red, green, blue; otherwise the other way round.

    Raises:
        TypeError, ValueError: `range` is not a range; when it runs, neither one nor three channels.
        ImportError: OpenCV is not installed.

    tensorpack: same; there grey images are refused.
    """

    def __init__(self, range: tuple[float, float] = (0, 180), rgb: bool = True) -> None:
        super().__init__()
        require_opencv(self)
        range = check_range(self, "range", range)
        self.range, self.rgb = range, rgb

    def _get_augment_params(self, img: Any) -> Any:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        if is_gray(img):
            return img
        require_colour(img, "Hue")
        cv2 = opencv("Hue")
        to_hsv, from_hsv = (
            (cv2.COLOR_RGB2HSV, cv2.COLOR_HSV2RGB) if self.rgb else (cv2.COLOR_BGR2HSV, cv2.COLOR_HSV2BGR)
        )
        is_uint8 = img.dtype == np.uint8
        hsv = cv2.cvtColor(img if is_uint8 else img.astype(np.float32), to_hsv)
        if is_uint8:  # half degrees, so that they fit into a byte
            hsv[:, :, 0] = (hsv[:, :, 0].astype(np.int32) + int(params)) % 180
        else:
            hsv[:, :, 0] = (hsv[:, :, 0] + 2 * params) % 360
        return cv2.cvtColor(hsv, from_hsv).astype(img.dtype, copy=False)


class Lighting(PhotometricAugmentor):
    """
    Add one colour to all pixels: eigvec @ (eigval * N(0, std)), the noise along the principal components of colours.

    Args:
        std: standard deviation of the three numbers drawn, the same for each image.
        eigval: `[3]`, how much each component varies.
        eigvec: `[3, 3]`, the components, one a column.
        clip: cut to [0, 255] images of floating types too.

    Raises:
        ValueError: shapes; when it runs, not three channels.

    Source: Krizhevsky, Sutskever, Hinton 2012, "ImageNet classification with deep convolutional neural networks", 4.1.
    tensorpack: same.
    """

    def __init__(self, std: float, eigval: Any, eigvec: Any, clip: bool = True) -> None:
        super().__init__()
        eigval, eigvec = np.asarray(eigval, np.float64), np.asarray(eigvec, np.float64)
        if eigval.shape != (3,) or eigvec.shape != (3, 3):
            raise ValueError(
                f"Lighting: takes eigval of shape (3,) and eigvec of shape (3, 3), got {eigval.shape} and {eigvec.shape}."
            )
        self.std, self.eigval, self.eigvec, self.clip = std, eigval, eigvec, clip

    def _get_augment_params(self, img: Any) -> Any:
        require_colour(img, "Lighting")
        return self.eigvec @ (self.eigval * self.rng.normal(0.0, self.std, size=3))

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        values = to_float(img)
        values += params.astype(values.dtype)
        return from_float(values, img.dtype, self.clip)


class Gamma(PhotometricAugmentor):
    """
    Change the gamma: 255 * (x / 255) ** (1 / (1 + g)).

    Args:
        range: (low, high) of g, uniform; > -1. 0 changes nothing, more makes it brighter.

    Raises:
        TypeError, ValueError: `range` is not a range, or goes down to -1.

    Note:
        It goes through a table of 256 values: images of floating types are rounded to whole values on the way.

    tensorpack: same; there the table's values are cut off and not rounded, so g = 0 makes some pixels darker.
    """

    def __init__(self, range: tuple[float, float] = (-0.5, 0.5)) -> None:
        super().__init__()
        range = check_range(self, "range", range)
        if range[0] <= -1:
            raise ValueError(f"Gamma: range must be above -1, got {range!r}.")
        self.range = range

    def _get_augment_params(self, img: Any) -> Any:
        return self._rand_range(*self.range)

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        table = np.rint((np.arange(256) / 255.0) ** (1.0 / (1.0 + float(params))) * 255.0).astype(np.uint8)
        whole = img if img.dtype == np.uint8 else np.clip(np.rint(img), 0, 255).astype(np.uint8)
        return np.take(table, whole).astype(img.dtype, copy=False)


class GaussianBlur(PhotometricAugmentor):
    """
    Blur.

    Args:
        size_range: (low, high): the kernel has 2k + 1 pixels, low <= k < high.
        sigma_range: (low, high) of the standard deviation in pixels, uniform; 0: the one that OpenCV finds for the size.
        symmetric: the same size and deviation in both directions.
        max_size: has no effect.

    Raises:
        TypeError, ValueError: a range is not a range, or holds no number.
        ImportError: OpenCV is not installed.

    tensorpack: same.
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
        size_range = check_range(self, "size_range", size_range)
        sigma_range = check_range(self, "sigma_range", sigma_range)
        if not 0 <= size_range[0] < size_range[1]:
            raise ValueError(
                f"GaussianBlur: size_range takes (low, high) with 0 <= low < high, got {size_range!r}."
            )
        if max_size is not None:
            log_deprecated("GaussianBlur(max_size=...)", "It has no effect: use size_range.", "", 3)
        self.size_range, self.sigma_range = size_range, sigma_range
        self.symmetric, self.max_size = symmetric, max_size

    def _get_augment_params(self, img: Any) -> Any:
        half = self.rng.randint(self.size_range[0], self.size_range[1], size=2)
        sigma = self._rand_range(self.sigma_range[0], self.sigma_range[1], size=2)
        if self.symmetric:
            half[1], sigma[1] = half[0], sigma[0]
        return 2 * half + 1, sigma

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        size, sigma = params
        cv2 = opencv("GaussianBlur")
        return keep_shape_and_type(
            lambda image: cv2.GaussianBlur(
                image, (int(size[0]), int(size[1])), sigmaX=float(sigma[0]), sigmaY=float(sigma[1])
            ),
            img,
        )


class Clip(PhotometricAugmentor):
    """
    Cut values to a range.

    Args:
        min: the lowest value that is kept.
        max: the highest.

    Raises:
        ValueError: min > max.

    tensorpack: same.
    """

    def __init__(self, min: float = 0, max: float = 255) -> None:
        super().__init__()
        check_range(self, "(min, max)", (min, max))
        self.min, self.max = min, max

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        return np.clip(to_float(img), self.min, self.max).astype(img.dtype)


class MeanVarianceNormalize(PhotometricAugmentor):
    """
    Bring an image to mean 0 and variance 1, in float32.

    Args:
        all_channel: one mean and variance for all channels together; otherwise one for each.

    Note:
        A standard deviation below 1 / sqrt(h * w * c) counts as that, so a constant image becomes 0.

    tensorpack: same.
    """

    def __init__(self, all_channel: bool = True) -> None:
        super().__init__()
        self.all_channel = all_channel

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        axis = None if self.all_channel else (0, 1)
        values = img.astype(np.float32)
        mean, std = values.mean(axis=axis, keepdims=True), values.std(axis=axis, keepdims=True)
        return (values - mean) / np.maximum(std, np.float32(1.0 / np.sqrt(img.size)))


class MinMaxNormalize(PhotometricAugmentor):
    """
    Stretch the values linearly to a range, in float32.

    Args:
        min: what the lowest value becomes.
        max: what the highest becomes.
        all_channel: lowest and highest of all channels together; otherwise of each.

    Note:
        An image, or a channel, of one value becomes `min`.

    tensorpack: same; there a constant image becomes NaN.
    """

    def __init__(self, min: float = 0, max: float = 255, all_channel: bool = True) -> None:
        super().__init__()
        self.min, self.max, self.all_channel = min, max, all_channel

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        axis = None if self.all_channel else (0, 1)
        values = img.astype(np.float32)
        lowest, highest = values.min(axis=axis, keepdims=True), values.max(axis=axis, keepdims=True)
        extent = np.where(highest > lowest, highest - lowest, np.float32(1))
        return (self.max - self.min) * (values - lowest) / extent + np.float32(self.min)
