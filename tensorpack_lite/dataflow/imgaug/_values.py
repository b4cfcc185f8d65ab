"""Arithmetic on pixel values: conversion to floating point and back, and to grayscale."""

from __future__ import annotations

import numpy as np

from ._opencv import keep_shape_and_type, opencv

# weights of red, green and blue in a gray value: ITU-R BT.601, as in cv2.cvtColor
GRAY_WEIGHTS_RGB = (0.299, 0.587, 0.114)


def to_float(image: np.ndarray) -> np.ndarray:
    """Copy an image to a floating type: float64 stays, all other types become float32."""
    return image.astype(np.float64 if image.dtype == np.float64 else np.float32)


def from_float(values: np.ndarray, dtype: np.dtype, clip: bool) -> np.ndarray:
    """
    Convert computed values to the dtype of the image.

    Args:
        values: computed from the result of `to_float`. They are overwritten.
        dtype: the dtype of the image. uint8 is always clipped to [0, 255], other integers to their limits.
        clip: whether to clip to [0, 255] for every dtype.

    Returns:
        An array of type `dtype`; integer types drop the fractions.
    """
    if clip or dtype == np.uint8:
        np.clip(values, 0, 255, out=values)
    elif dtype.kind in "iu":
        np.clip(values, np.iinfo(dtype).min, np.iinfo(dtype).max, out=values)
    return values.astype(dtype, copy=False)


def is_gray(image: np.ndarray) -> bool:
    """Return whether an image `[h, w]` or `[h, w, c]` has one channel."""
    return image.ndim == 2 or image.shape[2] == 1


def gray_of(image: np.ndarray, rgb: bool, who: str) -> np.ndarray:
    """
    Convert an image to grayscale with `cv2.cvtColor`.

    Args:
        image: `[h, w, 3]`.
        rgb: whether the channels are in RGB order; otherwise BGR.
        who: the augmentor, for the message.

    Returns:
        `[h, w, 1]`, of the same type.

    Raises:
        ValueError: `image` does not have three channels.
    """
    require_color(image, who)
    cv2 = opencv(who)
    code = cv2.COLOR_RGB2GRAY if rgb else cv2.COLOR_BGR2GRAY
    computed = image if image.dtype in (np.uint8, np.uint16, np.float32) else image.astype(np.float32)
    return keep_shape_and_type(cv2.cvtColor, computed, code).astype(image.dtype, copy=False)


def require_color(image: np.ndarray, who: str) -> None:
    """Raise ValueError unless an image has three channels; the message names the augmentor `who`."""
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"{who}: expected an image of three channels [h, w, 3], got shape {image.shape}.")
