"""
Transforms: what was drawn, ready to be applied, as often as wanted, to images and to coordinates.

In:  numbers.
Out: objects with `apply_image` and `apply_coords`. What they have in common is in `transform_base.py`.

No transform changes what it is given. Coordinates are `[n, 2]`, each (x, y), in units of pixels, with the corner of the
image at (0, 0) and the opposite one at (w, h).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._opencv import BORDER_CONSTANT, INTER_LINEAR, keep_shape_and_type, opencv
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
    "BaseTransform",
    "CropTransform",
    "FlipTransform",
    "LazyTransform",
    "NoOpTransform",
    "PhotometricTransform",
    "ResizeTransform",
    "Transform",
    "TransformFactory",
    "TransformList",
    "TransposeTransform",
    "WarpAffineTransform",
]


class ResizeTransform(Transform):
    """
    Stretch to another size.

    Args:
        h: height of the images that it takes.
        w: their width.
        new_h: height after.
        new_w: width after.
        interp: one of cv2's `INTER_...`.

    Raises:
        ValueError: by `apply_image`, an image of another size.

    tensorpack: same; there an AssertionError, and coordinates are changed in place.
    """

    def __init__(self, h: int, w: int, new_h: int, new_w: int, interp: int) -> None:
        self.h = h
        self.w = w
        self.new_h = new_h
        self.new_w = new_w
        self.interp = interp

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Resize by `cv2.resize`."""
        if img.shape[:2] != (self.h, self.w):
            raise ValueError(
                f"ResizeTransform: was made for images of {self.h}x{self.w} (height x width), got {img.shape[0]}x"
                f"{img.shape[1]}. Draw a new transform for images of another size: get_transform(img)."
            )
        size = (int(self.new_w), int(self.new_h))
        cv2 = opencv("Resize")
        return keep_shape_and_type(lambda image: cv2.resize(image, size, interpolation=self.interp), img)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Scale them."""
        return coords * _pair(coords, self.new_w / self.w, self.new_h / self.h)


class CropTransform(Transform):
    """
    Cut a rectangle out.

    Args:
        y0: its first row.
        x0: its first column.
        h: its height.
        w: its width.

    Note:
        The image is a view of the whole one. Coordinates outside the rectangle are kept; they become negative or
        larger than its size.

    tensorpack: same; there coordinates are changed in place.
    """

    def __init__(self, y0: int, x0: int, h: int, w: int) -> None:
        self.y0, self.x0, self.h, self.w = y0, x0, h, w

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Cut."""
        return img[self.y0 : self.y0 + self.h, self.x0 : self.x0 + self.w]

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Move the origin."""
        return coords - _pair(coords, self.x0, self.y0)


class FlipTransform(Transform):
    """
    Mirror.

    Args:
        h: height of the images.
        w: their width.
        horiz: exchange left and right; False exchanges top and bottom.

    Note:
        The image is a view with negative strides.

    tensorpack: same; there coordinates are changed in place.
    """

    def __init__(self, h: int, w: int, horiz: bool = True) -> None:
        self.h, self.w, self.horiz = h, w, horiz

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Mirror."""
        return img[:, ::-1] if self.horiz else img[::-1]

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Map x to w - x, or y to h - y."""
        mirrored = coords.copy()
        axis, size = (0, self.w) if self.horiz else (1, self.h)
        mirrored[:, axis] = size - mirrored[:, axis]
        return mirrored


class TransposeTransform(Transform):
    """
    Exchange rows and columns.

    tensorpack: same.
    """

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Transpose; the result is a view."""
        return img.swapaxes(0, 1)

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Exchange x and y."""
        return coords[:, ::-1].copy()


class WarpAffineTransform(Transform):
    """
    Map by a matrix: what is at (x, y) goes to `mat @ (x, y, 1)`.

    Args:
        mat: `[2, 3]`, from the old to the new image.
        dsize: (width, height) of the new image.
        interp: one of cv2's `INTER_...`.
        borderMode: one of cv2's `BORDER_...`: what is seen beyond the edge.
        borderValue: colour beyond the edge for `BORDER_CONSTANT`: a number for all channels, or one for each.

    tensorpack: same.
    """

    def __init__(
        self,
        mat: np.ndarray,
        dsize: tuple[int, int],
        interp: int = INTER_LINEAR,
        borderMode: int = BORDER_CONSTANT,  # noqa: N803  OpenCV's name
        borderValue: Any = 0,  # noqa: N803
    ) -> None:
        self.mat = mat
        self.dsize = dsize
        self.interp = interp
        self.borderMode = borderMode
        self.borderValue = borderValue

    def apply_image(self, img: np.ndarray) -> np.ndarray:
        """Map by `cv2.warpAffine`."""
        cv2 = opencv("WarpAffineTransform")
        return keep_shape_and_type(
            lambda image: cv2.warpAffine(
                image,
                np.asarray(self.mat, np.float64),
                tuple(int(size) for size in self.dsize),
                flags=self.interp,
                borderMode=self.borderMode,
                borderValue=_colour(self.borderValue),
            ),
            img,
        )

    def apply_coords(self, coords: np.ndarray) -> np.ndarray:
        """Multiply by the matrix."""
        mat = np.asarray(self.mat, np.float64)
        return (coords @ mat[:, :2].T + mat[:, 2]).astype(coords.dtype, copy=False)


def _pair(coords: np.ndarray, x: float, y: float) -> np.ndarray:
    """Two numbers in the type of the coordinates, so that it stays."""
    return np.array([x, y], dtype=coords.dtype)


def _colour(value: Any) -> tuple[float, ...]:
    """As OpenCV wants it: a number for each channel that there might be."""
    return (float(value),) * 4 if np.ndim(value) == 0 else tuple(float(channel) for channel in value)
