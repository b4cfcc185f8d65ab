"""Checks of the arguments of augmentors: images, coordinates, ranges and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.argtools import log_once
from ...utils.errors import type_error


def check_image(who: str, img: object) -> np.ndarray:
    """
    Check that `img` is an image, and return it.

    Args:
        who: the augmentor or DataFlow, for the message.
        img: `[h, w]` or `[h, w, c]`. For an integer dtype other than uint8, one warning is logged, because augmentors
            assume values from 0 to 255.

    Raises:
        TypeError: `img` is not an array.
        ValueError: `img` does not have two or three dimensions.
    """
    if not isinstance(img, np.ndarray):
        raise type_error(who, "images that are numpy arrays", img, "Use np.asarray(img).")
    if img.ndim not in (2, 3):
        raise ValueError(
            f"{who}: expected an image [h, w] or [h, w, c], got shape {img.shape}. Augment the images of a batch one by one."
        )
    if img.dtype.kind in "iu" and img.dtype != np.uint8:
        log_once(f"{who}: got an image of type {img.dtype}; augmentors support uint8 and float32.", "warning")
    return img


def check_coords(who: str, coords: object) -> np.ndarray:
    """
    Check an array of coordinates, and return it.

    Args:
        who: the DataFlow, for the message.
        coords: `[n, 2]` of a floating type.

    Raises:
        TypeError: `coords` is not an array of a floating type.
        ValueError: `coords` has another shape.
    """
    if not isinstance(coords, np.ndarray):
        raise type_error(who, "coordinates that are numpy arrays", coords, "Use np.asarray(coords, np.float32).")
    if coords.dtype.kind != "f":
        raise TypeError(
            f"{who}: expected coordinates of a floating type, got {coords.dtype}, which would round them to whole pixels. "
            f"Use coords.astype(np.float32)."
        )
    if coords.ndim != 2 or coords.shape[1] != 2:
        raise ValueError(
            f"{who}: expected coordinates [n, 2], each (x, y), got shape {coords.shape}. Use coords.reshape(-1, 2)."
        )
    return coords


def check_range(name: str, value: Any) -> tuple[Any, Any]:
    """
    Return a range of numbers as a tuple.

    Args:
        name: the augmentor and its argument, e.g. "Contrast: factor_range".
        value: (low, high), low <= high.

    Raises:
        TypeError: `value` is not a pair of numbers.
        ValueError: low > high.
    """
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    if not is_pair or not all(isinstance(bound, (int, float, np.number)) for bound in value):
        raise TypeError(f"{name}: expected (low, high), got {value!r}.")
    if value[0] > value[1]:
        raise ValueError(f"{name}: expected (low, high) with low <= high, got {value!r}.")
    return value[0], value[1]


def check_integer_range(name: str, value: object, minimum: int) -> tuple[int, int]:
    """
    Return a range of integers without its upper end, as the arguments of `randint`.

    Args:
        name: the augmentor and its argument.
        value: (low, high), low < high.
        minimum: the smallest valid `low`.

    Raises:
        TypeError: `value` is not a pair of numbers.
        ValueError: the range is empty, or `low` is too small.
    """
    low, high = check_range(name, value)
    if not minimum <= low < high:
        raise ValueError(f"{name}: expected (low, high) with {minimum} <= low < high, got {value!r}.")
    return low, high


def check_size(name: str, value: Any) -> tuple[int, int]:
    """
    Return a size as (height, width).

    Args:
        name: the augmentor and its argument.
        value: a positive integer for both sides, or (height, width).

    Raises:
        TypeError: `value` contains something other than integers.
        ValueError: there are not two integers, or one of them is not positive.
    """
    sizes = tuple(value) if isinstance(value, (list, tuple, np.ndarray)) else (value, value)
    message = f"{name}: expected a size or (height, width) in pixels, got {value!r}."
    if not all(isinstance(size, (int, np.integer)) for size in sizes):
        raise TypeError(message)
    if len(sizes) != 2 or min(sizes) <= 0:
        raise ValueError(message)
    return int(sizes[0]), int(sizes[1])
