"""Augmentors that crop or cover rectangles."""

from __future__ import annotations

from abc import abstractmethod
from typing import Sequence, Tuple, Union

import numpy as np

from ...utils.develop import log_deprecated
from ._check import check_integer_range, check_range, check_size
from ._opencv import INTER_LINEAR, require_opencv
from .base import ImageAugmentor, ImageLike, ImagePlaceholder, PhotometricAugmentor
from .misc import ResizeShortestEdge
from .transform import CropTransform, ResizeTransform
from .transform_base import BaseTransform, TransformList

SideRange = Union[int, Tuple[int, int]]


class _Crop(ImageAugmentor):
    """Base class of crops of a fixed size; subclasses choose the position."""

    def __init__(self, crop_shape: int | Sequence[int]) -> None:
        super().__init__()
        self.crop_shape = check_size(f"{type(self).__name__}: crop_shape", crop_shape)

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Choose the position."""
        return CropTransform(*self._position(_space(self, img, self.crop_shape)), *self.crop_shape)

    @abstractmethod
    def _position(self, space: tuple[int, int]) -> tuple[int, int]:
        """Return the first row and column, where `space` is the number of spare rows and columns."""


class CenterCrop(_Crop):
    """
    Augmentor that crops the middle of the image.

    Args:
        crop_shape: (height, width), or one number for both.

    Raises:
        TypeError, ValueError: `crop_shape` is not a size; (when applied) the image is smaller.
    """

    def _position(self, space: tuple[int, int]) -> tuple[int, int]:
        return space[0] // 2, space[1] // 2


class RandomCrop(_Crop):
    """
    Augmentor that crops a rectangle of a fixed size at a random position; all positions are equally likely.

    Args:
        crop_shape: (height, width), or one number for both.

    Raises:
        TypeError, ValueError: `crop_shape` is not a size; (when applied) the image is smaller.
    """

    def _position(self, space: tuple[int, int]) -> tuple[int, int]:
        return self._draw_position(space)


class RandomCropRandomShape(ImageAugmentor):
    """
    Augmentor that crops a rectangle of a random size at a random position.

    Args:
        wmin: minimum width.
        hmin: minimum height.
        wmax: maximum width. The limit is the width of the image, also for None.
        hmax: maximum height. The limit is the height of the image, also for None.
        max_aspect_ratio: has no effect.

    Raises:
        TypeError, ValueError: an argument is not a size; wmin > wmax or hmin > hmax; (when applied) the image
            is smaller than the minimum size.
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
        check_size("RandomCropRandomShape: (hmin, wmin)", (hmin, wmin))
        check_range("RandomCropRandomShape: (wmin, wmax)", (wmin, wmin if wmax is None else wmax))
        check_range("RandomCropRandomShape: (hmin, hmax)", (hmin, hmin if hmax is None else hmax))
        if max_aspect_ratio is not None:
            log_deprecated("RandomCropRandomShape(max_aspect_ratio=...)", "It has no effect.", "", 3)
        self.wmin, self.hmin = wmin, hmin
        self.wmax, self.hmax = wmax, hmax
        self.max_aspect_ratio = max_aspect_ratio

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw the size, then the position."""
        h, w = img.shape[:2]
        _space(self, img, (self.hmin, self.wmin))
        crop_h = int(self.rng.randint(self.hmin, min(self.hmax or h, h) + 1))
        crop_w = int(self.rng.randint(self.wmin, min(self.wmax or w, w) + 1))
        y0, x0 = self._draw_position((h - crop_h, w - crop_w))
        return CropTransform(y0, x0, crop_h, crop_w)


class GoogleNetRandomCropAndResize(ImageAugmentor):
    """
    Augmentor that crops a rectangle of random area and aspect ratio, and resizes it to a square.

    If ten drawn rectangles do not fit into the image, `ResizeShortestEdge` and `CenterCrop` are used instead.

    Args:
        crop_area_fraction: (low, high) of the rectangle's area, as a fraction of the image's area.
        aspect_ratio_range: (low, high) of width / height; with probability 0.5, of height / width.
        target_shape: side length of the square.
        interp: one of cv2's `INTER_...`.

    Raises:
        TypeError, ValueError: an argument is not a range or not a size.
        ImportError: OpenCV is not installed.

    Source: Szegedy et al. 2014, "Going deeper with convolutions", section 6.
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
        name = type(self).__name__
        self.crop_area_fraction = check_range(f"{name}: crop_area_fraction", crop_area_fraction)
        self.aspect_ratio_range = check_range(f"{name}: aspect_ratio_range", aspect_ratio_range)
        self.target_shape = check_size(f"{name}: target_shape", target_shape)[0]
        self.interp = interp

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw until a rectangle fits."""
        h, w = img.shape[:2]
        size = self.target_shape
        for _ in range(10):
            crop_h, crop_w = self._draw_size(h * w)
            if 0 < crop_h <= h and 0 < crop_w <= w:
                y0, x0 = self._draw_position((h - crop_h, w - crop_w))
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
    Augmentor that covers a rectangle inside the image; all positions are equally likely.

    Args:
        h_range: the height, or (low, high) with low <= height < high.
        w_range: the width, or (low, high) with low <= width < high.
        fill: the color of the rectangle: a number, or one for each channel.

    Raises:
        TypeError, ValueError: an argument is neither a number nor a range; (when applied) the image is smaller.

    Source: DeVries, Taylor 2017, "Improved regularization of convolutional neural networks with cutout".
    """

    def __init__(self, h_range: SideRange, w_range: SideRange, fill: float | Sequence[float] = 0.0) -> None:
        super().__init__()
        self.h_range, self.w_range, self.fill = h_range, w_range, fill
        self._bounds()

    def _get_augment_params(self, img: np.ndarray) -> tuple[int, int, int, int]:
        h, w = (int(self.rng.randint(low, high)) for low, high in self._bounds())
        return (*self._draw_position(_space(self, img, (h, w))), h, w)

    def _bounds(self) -> list[tuple[int, int]]:
        return [_side_bounds("h_range", self.h_range), _side_bounds("w_range", self.w_range)]

    def _augment(self, img: np.ndarray, params: tuple[int, int, int, int]) -> np.ndarray:
        y0, x0, h, w = params
        covered = img.copy()
        covered[y0 : y0 + h, x0 : x0 + w] = self.fill
        return covered


def _space(who: object, img: ImageLike, size: tuple[int, int]) -> tuple[int, int]:
    """Return how many more rows and columns an image has than a rectangle."""
    h, w = img.shape[:2]
    if h < size[0] or w < size[1]:
        raise ValueError(
            f"{type(who).__name__}: the image of {h}x{w} (height x width) is smaller than the rectangle of "
            f"{size[0]}x{size[1]}. Resize the image first, or use a smaller rectangle."
        )
    return h - size[0], w - size[1]


def _side_bounds(name: str, value: SideRange) -> tuple[int, int]:
    """Return the arguments of `randint` for a number or a range."""
    if isinstance(value, (int, np.integer)):
        return int(value), int(value) + 1
    return check_integer_range(f"RandomCutout: {name}", value, 1)
