"""
Geometric transforms with fixed parameters, for images and coordinates. The base classes are in `transform_base.py`.

In:  the parameters of the transform.
Out: an object with `apply_image` and `apply_coords`.

Transforms do not modify their inputs. Coordinates are `[n, 2]`, each (x, y), in pixels. The corners of the image are at
(0, 0) and (w, h).
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ._opencv import BORDER_CONSTANT, INTER_LINEAR, keep_shape_and_type, opencv
from .base import TransformAugmentorBase  # noqa: F401 (old scripts import it from here)
from .transform_base import (
    BaseTransform,
    LazyTransform,
    NoOpTransform,
    PhotometricTransform,
    Transform,
    TransformFactory,
    TransformList,
)

__all__ = [
    "BaseTransform", "CropTransform", "FlipTransform", "LazyTransform", "NoOpTransform",
    "PhotometricTransform", "ResizeTransform", "Transform", "TransformFactory", "TransformList",
    "TransposeTransform", "WarpAffineTransform",
]  # fmt: skip


class ResizeTransform(Transform):
    """
    Transform that resizes images of one size to another.

    Args:
        h: height of the images.
        w: width of the images.
        new_h: the new height.
        new_w: the new width.
        interp: one of cv2's `INTER_...`.

    Raises:
        ValueError: (by `apply_image`) the image has another size.
    """

    def __init__(self, h: int, w: int, new_h: int, new_w: int, interp: int) -> None:
        self.h, self.w = h, w
        self.new_h, self.new_w, self.interp = new_h, new_w, interp

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Resize with `cv2.resize`."""
        if img.shape[:2] != (self.h, self.w):
            raise ValueError(
                f"ResizeTransform: expected an image of {self.h}x{self.w} (height x width), got {img.shape[0]}x"
                f"{img.shape[1]}. Draw a new transform for this size: get_transform(img)."
            )
        size = (int(self.new_w), int(self.new_h))
        return keep_shape_and_type(opencv("Resize").resize, img, size, interpolation=self.interp)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Scale the coordinates."""
        return coords * _pair(coords, self.new_w / self.w, self.new_h / self.h)


class CropTransform(Transform):
    """
    Transform that crops a rectangle.

    Args:
        y0: the first row.
        x0: the first column.
        h: the height.
        w: the width.

    Note:
        The result is a view of the image. Coordinates outside the rectangle are kept; they become negative or larger
        than its size.
    """

    def __init__(self, y0: int, x0: int, h: int, w: int) -> None:
        self.y0, self.x0, self.h, self.w = y0, x0, h, w

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Crop the image."""
        return img[self.y0 : self.y0 + self.h, self.x0 : self.x0 + self.w]

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Subtract the position of the rectangle."""
        return coords - _pair(coords, self.x0, self.y0)


class FlipTransform(Transform):
    """
    Transform that flips the image.

    Args:
        h: height of the images.
        w: width of the images.
        horiz: whether to swap left and right; otherwise top and bottom.

    Note:
        The result is a view of the image, with negative strides.
    """

    def __init__(self, h: int, w: int, horiz: bool = True) -> None:
        self.h, self.w, self.horiz = h, w, horiz

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Flip the image."""
        return img[:, ::-1] if self.horiz else img[::-1]

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Map x to w - x, or y to h - y."""
        mirrored = coords.copy()
        axis, size = (0, self.w) if self.horiz else (1, self.h)
        mirrored[:, axis] = size - mirrored[:, axis]
        return mirrored


class TransposeTransform(Transform):
    """Transform that swaps rows and columns."""

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Transpose; the result is a view."""
        return img.swapaxes(0, 1)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Swap x and y."""
        return coords[:, ::-1].copy()


class WarpAffineTransform(Transform):
    """
    Transform that moves each point (x, y) to `mat @ (x, y, 1)`.

    Args:
        mat: `[2, 3]`, maps the old image to the new one.
        dsize: (width, height) of the new image.
        interp: one of cv2's `INTER_...`.
        borderMode: one of cv2's `BORDER_...`, which fills the pixels beyond the edge.
        borderValue: the color beyond the edge for `BORDER_CONSTANT`: a number for all channels, or one for each.
    """

    def __init__(
        self,
        mat: np.ndarray,
        dsize: tuple[int, int],
        interp: int = INTER_LINEAR,
        borderMode: int = BORDER_CONSTANT,  # noqa: N803  OpenCV's name
        borderValue: float | Sequence[float] = 0,  # noqa: N803
    ) -> None:
        self.mat, self.dsize, self.interp = mat, dsize, interp
        self.borderMode, self.borderValue = borderMode, borderValue

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Warp the image with `cv2.warpAffine`."""
        return keep_shape_and_type(
            opencv("WarpAffineTransform").warpAffine,
            img,
            np.asarray(self.mat, np.float64),
            tuple(int(size) for size in self.dsize),
            flags=self.interp,
            borderMode=self.borderMode,
            borderValue=_color(self.borderValue),
        )

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Multiply by the matrix."""
        mat = np.asarray(self.mat, np.float64)
        return (coords @ mat[:, :2].T + mat[:, 2]).astype(coords.dtype, copy=False)


def _pair(coords: np.ndarray, x: float, y: float) -> np.ndarray:
    """Return two numbers in the dtype of the coordinates, so that the dtype of the result does not change."""
    return np.array([x, y], dtype=coords.dtype)


def _color(value: Any) -> tuple[float, ...]:
    """Return the color as OpenCV expects it: a number for each of up to four channels."""
    return (float(value),) * 4 if np.ndim(value) == 0 else tuple(float(channel) for channel in value)
