"""Cut rectangles out, or cover them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Tuple, Union

import numpy as np

from ...utils.develop import log_deprecated
from ._check import check_range, check_size
from ._opencv import INTER_LINEAR, require_opencv
from ._place import anywhere, in_the_middle
from .base import ImageAugmentor, ImagePlaceholder, PhotometricAugmentor
from .misc import ResizeShortestEdge
from .transform import CropTransform, ResizeTransform
from .transform_base import BaseTransform, TransformList

__all__ = [
    "CenterCrop",
    "GoogleNetRandomCropAndResize",
    "RandomCrop",
    "RandomCropRandomShape",
    "RandomCutout",
]

SideRange = Union[int, Tuple[int, int]]


class _Crop(ImageAugmentor):
    """Cuts a rectangle of one size out; a subclass says where."""

    def __init__(self, crop_shape: int | tuple[int, int]) -> None:
        super().__init__()
        self.crop_shape = check_size(self, "crop_shape", crop_shape)

    def get_transform(self, img: Any) -> BaseTransform:
        """Choose the place."""
        return CropTransform(*self._place(_space(self, img, self.crop_shape)), *self.crop_shape)

    @abstractmethod
    def _place(self, space: tuple[int, int]) -> tuple[int, int]:
        """Choose the first row and column, given how many there are to spare."""


class CenterCrop(_Crop):
    """
    Cut a rectangle out of the middle.

    Args:
        crop_shape: (height, width), or a number for both.

    Raises:
        TypeError, ValueError: not a size; when it runs, the image is smaller.

    tensorpack: same; there the latter is an AssertionError.
    """

    def _place(self, space: tuple[int, int]) -> tuple[int, int]:
        return in_the_middle(space)


class RandomCrop(_Crop):
    """
    Cut a rectangle of one size out; each place is as probable as the others.

    Args:
        crop_shape: (height, width), or a number for both.

    Raises:
        TypeError, ValueError: not a size; when it runs, the image is smaller.

    tensorpack: same; there the latter is an AssertionError.
    """

    def _place(self, space: tuple[int, int]) -> tuple[int, int]:
        return anywhere(space, self.rng)


class RandomCropRandomShape(ImageAugmentor):
    """
    Cut a rectangle out, of a size and at a place that are drawn.

    Args:
        wmin: least width.
        hmin: least height.
        wmax: greatest width; None, or more than there is: that of the image.
        hmax: greatest height; the same.
        max_aspect_ratio: has no effect.

    Raises:
        TypeError, ValueError: not sizes; wmin > wmax or hmin > hmax; when it runs, the image is smaller than the least size.

    tensorpack: same; there the last row and column are never reached, and the errors are AssertionErrors.
    """

    def __init__(
        self,
        wmin: int,
        hmin: int,
        wmax: int | None = None,
        hmax: int | None = None,
        max_aspect_ratio: float | None = None,
    ) -> None:
        super().__init__()
        check_size(self, "(hmin, wmin)", (hmin, wmin))
        check_range(self, "(wmin, wmax)", (wmin, wmin if wmax is None else wmax))
        check_range(self, "(hmin, hmax)", (hmin, hmin if hmax is None else hmax))
        if max_aspect_ratio is not None:
            log_deprecated("RandomCropRandomShape(max_aspect_ratio=...)", "It has no effect.", "", 3)
        self.wmin = wmin
        self.hmin = hmin
        self.wmax = wmax
        self.hmax = hmax
        self.max_aspect_ratio = max_aspect_ratio

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw the size, then the place."""
        h, w = img.shape[:2]
        _space(self, img, (self.hmin, self.wmin))
        crop_h = int(self.rng.randint(self.hmin, min(self.hmax or h, h) + 1))
        crop_w = int(self.rng.randint(self.wmin, min(self.wmax or w, w) + 1))
        y0, x0 = anywhere((h - crop_h, w - crop_w), self.rng)
        return CropTransform(y0, x0, crop_h, crop_w)


class GoogleNetRandomCropAndResize(ImageAugmentor):
    """
    Cut out a rectangle whose area and shape are drawn, and resize it to a square.

    Ten are drawn; if none fits into the image, its middle is taken: `ResizeShortestEdge` and `CenterCrop`.

    Args:
        crop_area_fraction: (low, high) of the rectangle's area, as a fraction of the image's.
        aspect_ratio_range: (low, high) of width / height; the two change places every second time.
        target_shape: side of the square.
        interp: one of cv2's `INTER_...`.

    Raises:
        TypeError, ValueError: not ranges, or not a size.
        ImportError: OpenCV is not installed.

    Source: Szegedy et al. 2014, "Going deeper with convolutions", section 6.
    tensorpack: same.
    """

    def __init__(
        self,
        crop_area_fraction: tuple[float, float] = (0.08, 1.0),
        aspect_ratio_range: tuple[float, float] = (0.75, 1.333),
        target_shape: int = 224,
        interp: int = INTER_LINEAR,
    ) -> None:
        super().__init__()
        require_opencv(self)
        crop_area_fraction = check_range(self, "crop_area_fraction", crop_area_fraction)
        aspect_ratio_range = check_range(self, "aspect_ratio_range", aspect_ratio_range)
        target_shape = check_size(self, "target_shape", target_shape)[0]
        self.crop_area_fraction = crop_area_fraction
        self.aspect_ratio_range = aspect_ratio_range
        self.target_shape = target_shape
        self.interp = interp

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw until a rectangle fits."""
        h, w = img.shape[:2]
        size = self.target_shape
        for _ in range(10):
            crop_h, crop_w = self._draw_size(h * w)
            if 0 < crop_h <= h and 0 < crop_w <= w:
                y0, x0 = anywhere((h - crop_h, w - crop_w), self.rng)
                crop = CropTransform(y0, x0, crop_h, crop_w)
                return TransformList([crop, ResizeTransform(crop_h, crop_w, size, size, self.interp)])
        resize = ResizeShortestEdge(size, self.interp).get_transform(img)
        resized = ImagePlaceholder(shape=(resize.new_h, resize.new_w))
        return TransformList([resize, CenterCrop(size).get_transform(resized)])

    def _draw_size(self, area: int) -> tuple[int, int]:
        """Draw (height, width)."""
        crop_area = self.rng.uniform(*self.crop_area_fraction) * area
        ratio = self.rng.uniform(*self.aspect_ratio_range)
        crop_h, crop_w = int(np.sqrt(crop_area / ratio) + 0.5), int(np.sqrt(crop_area * ratio) + 0.5)
        return (crop_h, crop_w) if self.rng.uniform() < 0.5 else (crop_w, crop_h)


class RandomCutout(PhotometricAugmentor):
    """
    Cover a rectangle; each place inside the image is as probable as the others.

    Args:
        h_range: its height, or (low, high): low <= height < high.
        w_range: its width, or (low, high).
        fill: the value that covers it, or one for each channel.

    Raises:
        TypeError, ValueError: neither a number nor a range; when it runs, the image is smaller.

    Source: DeVries, Taylor 2017, "Improved regularization of convolutional neural networks with cutout".
    tensorpack: same; there a range fails, and the image is changed in place.
    """

    def __init__(self, h_range: SideRange, w_range: SideRange, fill: Any = 0.0) -> None:
        super().__init__()
        _side_bounds(self, "h_range", h_range)
        _side_bounds(self, "w_range", w_range)
        self.h_range, self.w_range, self.fill = h_range, w_range, fill

    def _get_augment_params(self, img: Any) -> Any:
        h = int(self.rng.randint(*_side_bounds(self, "h_range", self.h_range)))
        w = int(self.rng.randint(*_side_bounds(self, "w_range", self.w_range)))
        return (*anywhere(_space(self, img, (h, w)), self.rng), h, w)

    def _augment(self, img: np.ndarray, params: Any) -> np.ndarray:
        y0, x0, h, w = params
        covered = img.copy()
        covered[y0 : y0 + h, x0 : x0 + w] = self.fill
        return covered


def _space(who: object, img: Any, size: tuple[int, int]) -> tuple[int, int]:
    """How many rows and columns an image has more than a rectangle."""
    h, w = img.shape[:2]
    if h < size[0] or w < size[1]:
        raise ValueError(
            f"{type(who).__name__}: wants {size[0]}x{size[1]} (height x width) of an image that has only {h}x{w}. "
            f"Resize the image first, or take less."
        )
    return h - size[0], w - size[1]


def _side_bounds(who: object, name: str, value: Any) -> tuple[int, int]:
    """A number, or a range without its upper end, as arguments of `randint`."""
    if isinstance(value, (int, np.integer)):
        return int(value), int(value) + 1
    low, high = check_range(who, name, value)
    if not 0 < low < high:
        raise ValueError(
            f"{type(who).__name__}: {name} takes a number or (low, high) with 0 < low < high, got {value!r}."
        )
    return low, high
