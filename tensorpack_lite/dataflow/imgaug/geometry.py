"""
Move, turn, scale and shear: what one matrix does to an image.

The middle of an image of width w lies at w / 2 - 0.5 when pixels are counted from 0; turning keeps that point.
"""

from __future__ import annotations

from math import cos, radians, sin
from typing import Any

import numpy as np

from ._check import check_range
from ._opencv import BORDER_REPLICATE, INTER_LINEAR, require_opencv
from .base import ImageAugmentor
from .transform import CropTransform, WarpAffineTransform
from .transform_base import BaseTransform, TransformList

__all__ = ["Affine", "Rotation", "RotationAndCropValid", "Shift"]


class Shift(ImageAugmentor):
    """
    Move by whole pixels.

    Args:
        horiz_frac: how far at most to either side, as a fraction of the width; >= 0, < 1.
        vert_frac: how far at most up or down, as a fraction of the height.
        border: one of cv2's `BORDER_...`: what is seen beyond the edge.
        border_value: colour beyond the edge for `BORDER_CONSTANT`.

    Raises:
        ValueError: a fraction is outside.
        ImportError: OpenCV is not installed.

    tensorpack: same.
    """

    def __init__(
        self,
        horiz_frac: float = 0,
        vert_frac: float = 0,
        border: int = BORDER_REPLICATE,
        border_value: Any = 0,
    ) -> None:
        super().__init__()
        require_opencv(self)
        _check_fraction(self, "horiz_frac", horiz_frac)
        _check_fraction(self, "vert_frac", vert_frac)
        self.horiz_frac, self.vert_frac, self.border, self.border_value = (
            horiz_frac,
            vert_frac,
            border,
            border_value,
        )

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw how far."""
        h, w = img.shape[:2]
        dx = _whole(self, self.horiz_frac * w)
        dy = _whole(self, self.vert_frac * h)
        mat = np.array([[1, 0, dx], [0, 1, dy]], np.float32)
        return WarpAffineTransform(mat, (w, h), borderMode=self.border, borderValue=self.border_value)


class Rotation(ImageAugmentor):
    """
    Turn about a point; the size stays.

    Args:
        max_deg: how far at most to either side, in degrees.
        center_range: (low, high) of the point, as a fraction of width and height, drawn for each; (0.5, 0.5): the middle.
        interp: one of cv2's `INTER_...`.
        border: one of cv2's `BORDER_...`: what is seen beyond the edge.
        step_deg: turn by multiples of this only; then `max_deg` is 180, and a multiple of it.
        border_value: colour beyond the edge for `BORDER_CONSTANT`.

    Raises:
        TypeError, ValueError: not a range; `step_deg` with another `max_deg`, or no divisor of it.
        ImportError: OpenCV is not installed.

    tensorpack: same.
    """

    def __init__(
        self,
        max_deg: float,
        center_range: tuple[float, float] = (0, 1),
        interp: int = INTER_LINEAR,
        border: int = BORDER_REPLICATE,
        step_deg: float | None = None,
        border_value: Any = 0,
    ) -> None:
        super().__init__()
        require_opencv(self)
        center_range = check_range(self, "center_range", center_range)
        _check_step(self, max_deg, step_deg)
        self.max_deg = max_deg
        self.center_range = center_range
        self.interp = interp
        self.border = border
        self.step_deg = step_deg
        self.border_value = border_value

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw the point and the angle."""
        h, w = img.shape[:2]
        center = self.rng.uniform(self.center_range[0], self.center_range[1], size=2) * (w, h) - 0.5
        mat = _turn_about(center, _turn(_angle(self)))
        return WarpAffineTransform(
            mat, (w, h), interp=self.interp, borderMode=self.border, borderValue=self.border_value
        )


class RotationAndCropValid(ImageAugmentor):
    """
    Turn about the middle, and cut out the largest upright rectangle that shows nothing from beyond the edge.

    Args:
        max_deg: how far at most to either side, in degrees.
        interp: one of cv2's `INTER_...`.
        step_deg: turn by multiples of this only; then `max_deg` is 180, and a multiple of it.

    Raises:
        ValueError: `step_deg` with another `max_deg`, or no divisor of it.
        ImportError: OpenCV is not installed.

    Note:
        The size that comes out depends on the angle. The rectangle stays within the old image: after turning by 90
        degrees an image of 100x50 gives 50x50.

    tensorpack: same.
    """

    def __init__(self, max_deg: float, interp: int = INTER_LINEAR, step_deg: float | None = None) -> None:
        super().__init__()
        require_opencv(self)
        _check_step(self, max_deg, step_deg)
        self.max_deg, self.interp, self.step_deg = max_deg, interp, step_deg

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw the angle."""
        h, w = img.shape[:2]
        angle = _angle(self)
        warp = WarpAffineTransform(_turn_about(_middle(h, w), _turn(angle)), (w, h), interp=self.interp)
        new_w, new_h = self.largest_rotated_rect(w, h, angle)
        new_w, new_h = max(min(new_w, w), 1), max(min(new_h, h), 1)
        crop = CropTransform((h - new_h) // 2, (w - new_w) // 2, new_h, new_w)
        return TransformList([warp, crop])

    @staticmethod
    def largest_rotated_rect(w: float, h: float, angle: float) -> tuple[int, int]:
        """
        Find the largest upright rectangle inside a turned one.

        Args:
            w: width of the turned rectangle.
            h: its height.
            angle: in degrees.

        Returns:
            (width, height), rounded to whole pixels.

        Note:
            Where the turned rectangle is long, two corners of the answer touch its long sides and the area does not
            depend on how long they are; otherwise all four corners touch a side each.
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
    Scale, shear and turn about the middle, then move.

    Args:
        scale: (low, high) of a factor for both sides; None: 1.
        translate_frac: (horizontal, vertical): how far at most to either side, as fractions of width and height; whole
            pixels are drawn. None: not at all.
        rotate_max_deg: how far at most to either side, in degrees.
        shear: by how many degrees at most the vertical leans to either side.
        interp: one of cv2's `INTER_...`.
        border: one of cv2's `BORDER_...`: what is seen beyond the edge.
        border_value: colour beyond the edge for `BORDER_CONSTANT`.

    Raises:
        TypeError, ValueError: a pair is not a pair; a fraction is outside [0, 1); a negative angle.
        ImportError: OpenCV is not installed.

    tensorpack: same; there it fails on today's OpenCV.
    """

    def __init__(
        self,
        scale: tuple[float, float] | None = None,
        translate_frac: tuple[float, float] | None = None,
        rotate_max_deg: float = 0.0,
        shear: float = 0.0,
        interp: int = INTER_LINEAR,
        border: int = BORDER_REPLICATE,
        border_value: Any = 0,
    ) -> None:
        super().__init__()
        require_opencv(self)
        if scale is not None:
            scale = check_range(self, "scale", scale)
        if translate_frac is not None:
            if not isinstance(translate_frac, (tuple, list)) or len(translate_frac) != 2:
                raise TypeError(f"Affine: translate_frac takes a pair of numbers, got {translate_frac!r}.")
            _check_fraction(self, "translate_frac[0]", translate_frac[0])
            _check_fraction(self, "translate_frac[1]", translate_frac[1])
        if rotate_max_deg < 0 or shear < 0:
            raise ValueError(
                f"Affine: rotate_max_deg and shear are the most to either side and must not be negative, got "
                f"{rotate_max_deg!r} and {shear!r}."
            )
        self.scale = scale
        self.translate_frac = translate_frac
        self.rotate_max_deg = rotate_max_deg
        self.shear = shear
        self.interp = interp
        self.border = border
        self.border_value = border_value

    def get_transform(self, img: Any) -> BaseTransform:
        """Draw all of it."""
        h, w = img.shape[:2]
        scale = self.rng.uniform(*self.scale) if self.scale else 1.0
        angle = self.rng.uniform(-self.rotate_max_deg, self.rotate_max_deg)
        lean = radians(self.rng.uniform(-self.shear, self.shear))
        linear = scale * _turn(angle) @ np.array([[1, sin(lean)], [0, cos(lean)]])
        mat = _turn_about(_middle(h, w), linear)
        if self.translate_frac:
            mat[:, 2] += _whole(self, self.translate_frac[0] * w), _whole(self, self.translate_frac[1] * h)
        return WarpAffineTransform(
            mat, (w, h), interp=self.interp, borderMode=self.border, borderValue=self.border_value
        )


def _middle(h: int, w: int) -> np.ndarray:
    """(x, y) of the point in the middle, counting pixels from 0."""
    return np.array([w, h]) / 2 - 0.5


def _turn(degrees: float) -> np.ndarray:
    """`[2, 2]`: counter-clockwise as it is seen, with y pointing down."""
    angle = radians(degrees)
    return np.array([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])


def _turn_about(center: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """`[2, 3]`: a linear map `[2, 2]` that leaves a point where it is."""
    return np.hstack([linear, (center - linear @ center)[:, np.newaxis]])


def _angle(augmentor: Any) -> float:
    """Draw an angle in degrees; with a step, the next multiple below."""
    degrees = augmentor.rng.uniform(-augmentor.max_deg, augmentor.max_deg)
    return degrees if augmentor.step_deg is None else degrees // augmentor.step_deg * augmentor.step_deg


def _whole(augmentor: ImageAugmentor, most: float) -> float:
    """Draw a whole number of pixels to either side."""
    return float(np.round(augmentor.rng.uniform(-most, most)))


def _check_fraction(who: object, name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(
            f"{type(who).__name__}: {name} takes a fraction, at least 0 and less than 1, got {value!r}."
        )


def _check_step(who: object, max_deg: float, step_deg: float | None) -> None:
    if step_deg is not None and (max_deg != 180 or step_deg <= 0 or 180 % step_deg != 0):
        raise ValueError(
            f"{type(who).__name__}: step_deg needs max_deg=180 and must divide it, got max_deg={max_deg!r}, "
            f"step_deg={step_deg!r}."
        )
