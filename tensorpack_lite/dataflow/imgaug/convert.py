"""Conversions of color spaces and types."""

from __future__ import annotations

import numpy as np

from ._opencv import opencv, require_opencv
from ._values import gray_of, is_gray
from .base import PhotometricAugmentor


class ColorSpace(PhotometricAugmentor):
    """
    Augmentor that converts the color space with `cv2.cvtColor`.

    Args:
        mode: one of cv2's `COLOR_...`.
        keepdims: whether an image with one channel becomes `[h, w, 1]` instead of `[h, w]`.

    Raises:
        ImportError: OpenCV is not installed.
    """

    def __init__(self, mode: int, keepdims: bool = True) -> None:
        super().__init__()
        require_opencv(self)
        self.mode, self.keepdims = mode, keepdims

    def _augment(self, img: np.ndarray, params: object) -> np.ndarray:
        converted = opencv("ColorSpace").cvtColor(img, self.mode)
        return converted[:, :, np.newaxis] if self.keepdims and converted.ndim == 2 else converted


class Grayscale(PhotometricAugmentor):
    """
    Augmentor that converts the image to grayscale. Images with one channel keep their values.

    Args:
        keepdims: whether the result is `[h, w, 1]`; otherwise `[h, w]`.
        rgb: whether the channels are in RGB order; otherwise BGR, as OpenCV reads images.
        keepshape: whether the result is `[h, w, 3]` with three equal channels. Requires `keepdims`.

    Raises:
        ValueError: `keepshape` without `keepdims`; (when applied) the image does not have one or three channels.
        ImportError: OpenCV is not installed.
    """

    def __init__(self, keepdims: bool = True, rgb: bool = False, keepshape: bool = False) -> None:
        super().__init__()
        require_opencv(self)
        if keepshape and not keepdims:
            raise ValueError("Grayscale: keepshape=True returns [h, w, 3], which requires keepdims=True.")
        self.keepdims, self.rgb, self.keepshape = keepdims, rgb, keepshape

    def _augment(self, img: np.ndarray, params: object) -> np.ndarray:
        gray = img.reshape(*img.shape[:2], 1) if is_gray(img) else gray_of(img, self.rgb, "Grayscale")
        if self.keepshape:
            return np.repeat(gray, 3, axis=2)
        return gray if self.keepdims else gray[:, :, 0]


class ToUint8(PhotometricAugmentor):
    """Augmentor that clips the image to [0, 255] and converts it to uint8; fractions are dropped."""

    def _augment(self, img: np.ndarray, params: object) -> np.ndarray:
        return np.clip(img, 0, 255).astype(np.uint8) if img.dtype != np.uint8 else img


class ToFloat32(PhotometricAugmentor):
    """Augmentor that converts the image to float32; the values do not change."""

    def _augment(self, img: np.ndarray, params: object) -> np.ndarray:
        return img.astype(np.float32, copy=False)
