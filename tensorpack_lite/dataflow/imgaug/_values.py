"""Arithmetic on the values of pixels: into floating point and back, and what is grey."""

from __future__ import annotations

import numpy as np

from ._opencv import keep_shape_and_type, opencv

__all__ = ["GRAY_WEIGHTS_RGB", "from_float", "gray_of", "is_gray", "require_colour", "to_float"]

# of red, green and blue in a grey value: ITU-R BT.601, as in cv2.cvtColor
GRAY_WEIGHTS_RGB = (0.299, 0.587, 0.114)


def to_float(image: np.ndarray) -> np.ndarray:
    """
    Copy an image into the type to compute in: float64 stays, everything else becomes float32.

    Args:
        image: of any type.
    """
    return image.astype(np.float64 if image.dtype == np.float64 else np.float32)


def from_float(values: np.ndarray, dtype: np.dtype, clip: bool) -> np.ndarray:
    """
    Bring computed values back into the type of the image.

    Args:
        values: of `to_float`; they are overwritten.
        dtype: of the image. uint8 is always cut to [0, 255], other integers to what they hold.
        clip: cut to [0, 255] whatever the type.

    Returns:
        An image of type `dtype`. Fractions are cut off where it is an integer type.
    """
    if clip or dtype == np.uint8:
        np.clip(values, 0, 255, out=values)
    elif dtype.kind in "iu":
        np.clip(values, np.iinfo(dtype).min, np.iinfo(dtype).max, out=values)
    return values.astype(dtype, copy=False)


def is_gray(image: np.ndarray) -> bool:
    """
    Tell whether an image has one channel.

    Args:
        image: `[h, w]` or `[h, w, c]`.
    """
    return image.ndim == 2 or image.shape[2] == 1


def gray_of(image: np.ndarray, rgb: bool, who: str) -> np.ndarray:
    """
    Make a grey image by `cv2.cvtColor`.

    Args:
        image: `[h, w, 3]`.
        rgb: the channels are red, green, blue; otherwise the other way round.
        who: the augmentor; it is named when the image has another number of channels.

    Returns:
        `[h, w, 1]`, of the same type.

    Raises:
        ValueError: not three channels.
    """
    require_colour(image, who)
    cv2 = opencv(who)
    code = cv2.COLOR_RGB2GRAY if rgb else cv2.COLOR_BGR2GRAY
    computed = image if image.dtype in (np.uint8, np.uint16, np.float32) else image.astype(np.float32)
    return keep_shape_and_type(lambda colour: cv2.cvtColor(colour, code), computed).astype(
        image.dtype, copy=False
    )


def require_colour(image: np.ndarray, who: str) -> None:
    """
    Refuse an image that has not three channels.

    Args:
        image: any.
        who: the augmentor; it is named.

    Raises:
        ValueError: it has another number of channels.
    """
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"{who}: takes an image of three channels [h, w, 3], got shape {image.shape}.")
