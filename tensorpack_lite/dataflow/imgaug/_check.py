"""What augmentors take: images and coordinates, looked at before anything is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.argtools import log_once
from ...utils.errors import type_error

__all__ = ["check_coords", "check_image", "check_probability", "check_range", "check_size"]


def check_image(who: str, img: Any) -> np.ndarray:
    """
    Refuse what is not an image.

    Args:
        who: the augmentor or DataFlow that complains.
        img: `[h, w]` or `[h, w, c]`. Integers other than uint8 are let through with one warning: sums and clipping
            assume 0 to 255.

    Returns:
        `img`.

    Raises:
        TypeError: not an array.
        ValueError: another number of dimensions.
    """
    if not isinstance(img, np.ndarray):
        raise type_error(who, "images that are numpy arrays", img, "Use np.asarray(img).")
    if img.ndim not in (2, 3):
        raise ValueError(
            f"{who}: takes an image [h, w] or [h, w, c], got shape {img.shape}. Augment the images of a batch one by one."
        )
    if img.dtype.kind in "iu" and img.dtype != np.uint8:
        log_once(
            f"{who}: got an image of type {img.dtype}; augmentors are made for uint8 and float32.", "warning"
        )
    return img


def check_coords(who: str, coords: Any) -> np.ndarray:
    """
    Refuse what are not coordinates.

    Args:
        who: the DataFlow that complains.
        coords: `[n, 2]` of a floating type.

    Returns:
        `coords`.

    Raises:
        TypeError: not an array of a floating type.
        ValueError: another shape.
    """
    if not isinstance(coords, np.ndarray):
        raise type_error(
            who, "coordinates that are numpy arrays", coords, "Use np.asarray(coords, np.float32)."
        )
    if coords.dtype.kind != "f":
        raise TypeError(
            f"{who}: takes coordinates of a floating type, got {coords.dtype}: they would be cut to whole pixels. "
            f"Use coords.astype(np.float32)."
        )
    if coords.ndim != 2 or coords.shape[1] != 2:
        raise ValueError(
            f"{who}: takes coordinates [n, 2], each (x, y), got shape {coords.shape}. Use coords.reshape(-1, 2)."
        )
    return coords


def check_range(who: object, name: str, value: Any) -> tuple[Any, Any]:
    """
    Read a range of numbers.

    Args:
        who: the augmentor; its type is named.
        name: of the argument.
        value: (low, high), low <= high.

    Returns:
        The two, as a tuple.

    Raises:
        TypeError: not a pair of numbers.
        ValueError: low > high.
    """
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    if not is_pair or not all(isinstance(bound, (int, float, np.number)) for bound in value):
        raise TypeError(f"{type(who).__name__}: {name} takes (low, high), got {value!r}.")
    if value[0] > value[1]:
        raise ValueError(f"{type(who).__name__}: {name} takes (low, high) with low <= high, got {value!r}.")
    return value[0], value[1]


def check_size(who: object, name: str, value: Any) -> tuple[int, int]:
    """
    Read a size: a number for both sides, or (height, width).

    Args:
        who: the augmentor; its type is named.
        name: of the argument.
        value: a positive integer, or two of them.

    Returns:
        (height, width).

    Raises:
        TypeError: not integers.
        ValueError: not two, or not positive.
    """
    sizes = tuple(value) if isinstance(value, (list, tuple, np.ndarray)) else (value, value)
    advice = f"{type(who).__name__}: {name} takes a size or (height, width) in pixels, got {value!r}."
    if not all(isinstance(size, (int, np.integer)) for size in sizes):
        raise TypeError(advice)
    if len(sizes) != 2 or min(sizes) <= 0:
        raise ValueError(advice)
    return int(sizes[0]), int(sizes[1])


def check_probability(who: object, name: str, value: Any) -> float:
    """
    Refuse what is not a probability.

    Args:
        who: the augmentor; its type is named.
        name: of the argument.
        value: from 0 to 1.

    Returns:
        `value`.

    Raises:
        ValueError: less than 0 or more than 1.
    """
    if not 0 <= value <= 1:
        raise ValueError(f"{type(who).__name__}: {name} takes a probability from 0 to 1, got {value!r}.")
    return value
