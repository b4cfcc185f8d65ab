"""
Affine augmentors: translation, rotation, scaling and shear.

The center of an image of width w is at x = w / 2 - 0.5, counting pixels from 0. Rotations about the center keep this
point fixed.
"""

from __future__ import annotations

from math import cos, radians, sin
from typing import Sequence

import numpy as np

from ...utils.checks import check_at_least, check_fraction
from ._check import check_range
from ._opencv import BORDER_REPLICATE, INTER_LINEAR, require_opencv
from .base import ImageAugmentor, ImageLike, TransformAugmentorBase  # noqa: F401 (old scripts import it from here)
from .transform import CropTransform, WarpAffineTransform
from .transform_base import BaseTransform, TransformList


class Shift(ImageAugmentor):
    """
    Augmentor that shifts the image by a whole number of pixels.

    Args:
        horiz_frac: maximum shift to the left or right, as a fraction of the width; 0 <= x < 1.
        vert_frac: maximum shift up or down, as a fraction of the height; 0 <= x < 1.
        border: one of cv2's `BORDER_...`, which fills the pixels beyond the edge.
        border_value: the color beyond the edge for `BORDER_CONSTANT`.

    Raises:
        ValueError: a fraction is out of range.
        ImportError: OpenCV is not installed.
    """

    def __init__(
        self,
        horiz_frac: float = 0,
        vert_frac: float = 0,
        border: int = BORDER_REPLICATE,
        border_value: float | Sequence[float] = 0,
    ) -> None:
        super().__init__()
        require_opencv(self)
        self.horiz_frac = check_fraction("Shift: horiz_frac", horiz_frac)
        self.vert_frac = check_fraction("Shift: vert_frac", vert_frac)
        self.border, self.border_value = border, border_value

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw the shift."""
        h, w = img.shape[:2]
        dx = _draw_pixels(self, self.horiz_frac * w)
        dy = _draw_pixels(self, self.vert_frac * h)
        mat = np.array([[1, 0, dx], [0, 1, dy]], np.float32)
        return WarpAffineTransform(mat, (w, h), borderMode=self.border, borderValue=self.border_value)


class Rotation(ImageAugmentor):
    """
    Augmentor that rotates the image about a random point; the size does not change.

    Args:
        max_deg: maximum rotation in either direction, in degrees.
        center_range: (low, high) of both coordinates of the point, as a fraction of width and height. (0.5, 0.5) is the
            center.
        interp: one of cv2's `INTER_...`.
        border: one of cv2's `BORDER_...`, which fills the pixels beyond the edge.
        step_deg: rotate only by multiples of this. Requires `max_deg=180`, and must divide 180.
        border_value: the color beyond the edge for `BORDER_CONSTANT`.

    Raises:
        TypeError, ValueError: `center_range` is not a range; `step_deg` does not fit `max_deg`.
        ImportError: OpenCV is not installed.
    """

    def __init__(
        self,
        max_deg: float,
        center_range: tuple[float, float] = (0, 1),
        interp: int = INTER_LINEAR,
        border: int = BORDER_REPLICATE,
        step_deg: float | None = None,
        border_value: float | Sequence[float] = 0,
    ) -> None:
        super().__init__()
        require_opencv(self)
        _check_step(self, max_deg, step_deg)
        self.max_deg, self.step_deg = max_deg, step_deg
        self.center_range = check_range("Rotation: center_range", center_range)
        self.interp, self.border, self.border_value = interp, border, border_value

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw the point and the angle."""
        h, w = img.shape[:2]
        center = self.rng.uniform(self.center_range[0], self.center_range[1], size=2) * (w, h) - 0.5
        mat = _matrix_about(center, _rotation(_draw_angle(self)))
        return WarpAffineTransform(mat, (w, h), self.interp, self.border, self.border_value)


class RotationAndCropValid(ImageAugmentor):
    """
    Augmentor that rotates the image about its center, and crops the largest upright rectangle that contains only pixels of
    the image.

    Args:
        max_deg: maximum rotation in either direction, in degrees.
        interp: one of cv2's `INTER_...`.
        step_deg: rotate only by multiples of this. Requires `max_deg=180`, and must divide 180.

    Raises:
        ValueError: `step_deg` does not fit `max_deg`.
        ImportError: OpenCV is not installed.

    Note:
        The size of the result depends on the angle. The rectangle stays inside the original image area:
        rotating an image of 100x50 by 90 degrees gives 50x50.
    """

    def __init__(self, max_deg: float, interp: int = INTER_LINEAR, step_deg: float | None = None) -> None:
        super().__init__()
        require_opencv(self)
        _check_step(self, max_deg, step_deg)
        self.max_deg, self.interp, self.step_deg = max_deg, interp, step_deg

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw the angle."""
        h, w = img.shape[:2]
        angle = _draw_angle(self)
        warp = WarpAffineTransform(_matrix_about(_center(h, w), _rotation(angle)), (w, h), interp=self.interp)
        new_w, new_h = self.largest_rotated_rect(w, h, angle)
        new_w, new_h = max(min(new_w, w), 1), max(min(new_h, h), 1)
        crop = CropTransform((h - new_h) // 2, (w - new_w) // 2, new_h, new_w)
        return TransformList([warp, crop])

    @staticmethod
    def largest_rotated_rect(w: float, h: float, angle: float) -> tuple[int, int]:
        """
        Return the size of the largest upright rectangle inside a rotated one.

        Args:
            w: width of the rotated rectangle.
            h: its height.
            angle: in degrees.

        Returns:
            (width, height), rounded to whole pixels.

        Note:
            If the rotated rectangle is long, two corners of the result touch its long sides, and the area does not
            depend on their length. Otherwise each of the four corners touches a side.
        """
        sine, cosine = abs(sin(radians(angle))), abs(cos(radians(angle)))
        if min(w, h) <= 2 * sine * cosine * max(w, h) or abs(sine - cosine) < 1e-10:
            half = 0.5 * min(w, h)
            new_w, new_h = (half / sine, half / cosine) if w >= h else (half / cosine, half / sine)
        else:
            cos2 = cosine * cosine - sine * sine
            new_w, new_h = (w * cosine - h * sine) / cos2, (h * cosine - w * sine) / cos2
        return round(new_w), round(new_h)


class Affine(ImageAugmentor):
    """
    Augmentor that scales, shears and rotates the image about its center, then translates it.

    Args:
        scale: (low, high) of one factor for width and height. None: 1.
        translate_frac: maximum (horizontal, vertical) translation in either direction, as fractions of width
            and height. It is a whole number of pixels. None: no translation.
        rotate_max_deg: maximum rotation in either direction, in degrees.
        shear: maximum angle in degrees by which the vertical axis leans in either direction.
        interp: one of cv2's `INTER_...`.
        border: one of cv2's `BORDER_...`, which fills the pixels beyond the edge.
        border_value: the color beyond the edge for `BORDER_CONSTANT`.

    Raises:
        TypeError, ValueError: an argument is not a pair; a fraction is outside [0, 1); an angle is negative.
        ImportError: OpenCV is not installed.
    """

    def __init__(
        self,
        scale: tuple[float, float] | None = None,
        translate_frac: tuple[float, float] | None = None,
        rotate_max_deg: float = 0.0,
        shear: float = 0.0,
        interp: int = INTER_LINEAR,
        border: int = BORDER_REPLICATE,
        border_value: float | Sequence[float] = 0,
    ) -> None:
        super().__init__()
        require_opencv(self)
        self.scale = None if scale is None else check_range("Affine: scale", scale)
        if translate_frac is not None:
            if not isinstance(translate_frac, (tuple, list)) or len(translate_frac) != 2:
                raise TypeError(f"Affine: translate_frac: expected a pair of numbers, got {translate_frac!r}.")
            for index, fraction in enumerate(translate_frac):
                check_fraction(f"Affine: translate_frac[{index}]", fraction)
        self.translate_frac = translate_frac
        self.rotate_max_deg = check_at_least("Affine: rotate_max_deg", rotate_max_deg, 0)
        self.shear = check_at_least("Affine: shear", shear, 0)
        self.interp, self.border, self.border_value = interp, border, border_value

    def get_transform(self, img: ImageLike) -> BaseTransform:
        """Draw scale, rotation, shear and translation."""
        h, w = img.shape[:2]
        scale = self.rng.uniform(*self.scale) if self.scale else 1.0
        angle = self.rng.uniform(-self.rotate_max_deg, self.rotate_max_deg)
        lean = radians(self.rng.uniform(-self.shear, self.shear))
        linear = scale * _rotation(angle) @ np.array([[1, sin(lean)], [0, cos(lean)]])
        mat = _matrix_about(_center(h, w), linear)
        if self.translate_frac:
            mat[:, 2] += [_draw_pixels(self, f * size) for f, size in zip(self.translate_frac, (w, h))]
        return WarpAffineTransform(mat, (w, h), self.interp, self.border, self.border_value)


def _center(h: int, w: int) -> np.ndarray:
    """Return (x, y) of the center, counting pixels from 0."""
    return np.array([w, h]) / 2 - 0.5


def _rotation(degrees: float) -> np.ndarray:
    """Return a matrix `[2, 2]` that rotates counterclockwise on the screen, where y points down."""
    angle = radians(degrees)
    return np.array([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])


def _matrix_about(center: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Return the affine matrix `[2, 3]` of a linear map `[2, 2]` that keeps `center` fixed."""
    return np.hstack([linear, (center - linear @ center)[:, np.newaxis]])


def _draw_angle(augmentor: Rotation | RotationAndCropValid) -> float:
    """Draw an angle in degrees; with a step, round it down to a multiple."""
    degrees = augmentor.rng.uniform(-augmentor.max_deg, augmentor.max_deg)
    return degrees if augmentor.step_deg is None else degrees // augmentor.step_deg * augmentor.step_deg


def _draw_pixels(augmentor: ImageAugmentor, maximum: float) -> float:
    """Draw a whole number of pixels in [-maximum, maximum]."""
    return float(np.round(augmentor.rng.uniform(-maximum, maximum)))


def _check_step(who: object, max_deg: float, step_deg: float | None) -> None:
    if step_deg is not None and (max_deg != 180 or step_deg <= 0 or 180 % step_deg != 0):
        raise ValueError(
            f"{type(who).__name__}: expected a step_deg that divides 180, and max_deg=180, got step_deg={step_deg!r} and "
            f"max_deg={max_deg!r}."
        )
