"""Colour spaces and types."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._opencv import opencv, require_opencv
from ._values import gray_of, is_gray
from .base import PhotometricAugmentor

__all__ = ["ColorSpace", "Grayscale", "ToFloat32", "ToUint8"]


class ColorSpace(PhotometricAugmentor):
    """
    Convert by `cv2.cvtColor`.

    Args:
        mode: one of cv2's `COLOR_...`.
        keepdims: `[h, w, 1]` instead of `[h, w]` where the result has one channel.

    Raises:
        ImportError: OpenCV is not installed.

    tensorpack: same.
    """

    def __init__(self, mode: int, keepdims: bool = True) -> None:
        super().__init__()
        require_opencv(self)
        self.mode, self.keepdims = mode, keepdims

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        converted = opencv("ColorSpace").cvtColor(img, self.mode)
        return converted[:, :, np.newaxis] if self.keepdims and converted.ndim == 2 else converted


class Grayscale(PhotometricAugmentor):
    """
    Make grey. An image of one channel keeps its values.

    Args:
        keepdims: the result is `[h, w, 1]`; otherwise `[h, w]`.
        rgb: the channels are red, green, blue; otherwise, as OpenCV reads images, the other way round.
        keepshape: the result is `[h, w, 3]`, three times the same; only with `keepdims`.

    Raises:
        ValueError: `keepshape` without `keepdims`; when it runs, neither one nor three channels.
        ImportError: OpenCV is not installed.

    tensorpack: same; there grey images are refused.
    """

    def __init__(self, keepdims: bool = True, rgb: bool = False, keepshape: bool = False) -> None:
        super().__init__()
        require_opencv(self)
        if keepshape and not keepdims:
            raise ValueError("Grayscale: keepshape=True gives [h, w, 3], which needs keepdims=True.")
        self.keepdims, self.rgb, self.keepshape = keepdims, rgb, keepshape

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        gray = (
            img.reshape(img.shape[0], img.shape[1], 1)
            if is_gray(img)
            else gray_of(img, self.rgb, "Grayscale")
        )
        if self.keepshape:
            return np.repeat(gray, 3, axis=2)
        return gray if self.keepdims else gray[:, :, 0]


class ToUint8(PhotometricAugmentor):
    """
    Cut to [0, 255] and convert to uint8; fractions are cut off.

    tensorpack: same.
    """

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        return np.clip(img, 0, 255).astype(np.uint8) if img.dtype != np.uint8 else img


class ToFloat32(PhotometricAugmentor):
    """
    Convert to float32; values stay.

    tensorpack: same.
    """

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        return img.astype(np.float32, copy=False)
