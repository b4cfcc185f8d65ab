"""The functions for images of `scipy.misc`, by PIL, with the meaning that they had."""

from __future__ import annotations

from typing import Any

import numpy as np

_FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "cubic": 3}


def bytescale(data: Any, cmin: Any = None, cmax: Any = None, high: int = 255, low: int = 0) -> np.ndarray:
    """
    Return an array as uint8, with the range of its values scaled to `low` to `high`. An array of uint8 is not scaled.

    Args:
        cmin, cmax: the values that become `low` and `high`. Default: the smallest and the largest one.
    """
    data = np.asarray(data)
    if data.dtype == np.uint8:
        return data
    if not 0 <= low <= high <= 255:
        raise ValueError(f"bytescale: expected 0 <= low <= high <= 255, got {low} and {high}. Change them.")
    cmin = data.min() if cmin is None else cmin
    cmax = data.max() if cmax is None else cmax
    if cmax < cmin:
        raise ValueError(f"bytescale: expected cmin <= cmax, got {cmin} and {cmax}. Change them.")
    scaled = (data - cmin) * (float(high - low) / (float(cmax - cmin) or 1)) + low
    return (scaled.clip(low, high) + 0.5).astype(np.uint8)


def toimage(
    arr: Any,
    high: int = 255,
    low: int = 0,
    cmin: Any = None,
    cmax: Any = None,
    pal: Any = None,
    mode: str | None = None,
    channel_axis: int | None = None,
) -> Any:
    """
    Return an image of an array `(height, width)`, or with 3 or 4 channels on any axis. Values are scaled to uint8.

    Args:
        mode: "F" and "I" keep the values, as float32 and int32; "1" and "P" are black and white, and a palette.
    """
    from PIL import Image

    data = np.asarray(arr)
    if np.iscomplexobj(data):
        raise ValueError("toimage: expected real values, got complex ones. Pass their absolute values.")
    if data.ndim == 2:
        return _gray(data, high, low, cmin, cmax, pal, mode)
    if data.ndim != 3 or not {3, 4} & set(data.shape):
        raise ValueError(
            f"toimage: expected (height, width), or 3 axes with one of 3 or 4 channels, got {data.shape}. Reshape it."
        )
    if channel_axis is None:
        channel_axis = next(i for size in (3, 4) for i in range(3) if size in data.shape and data.shape[i] == size)
    data = np.moveaxis(bytescale(data, cmin, cmax, high, low), channel_axis, -1)
    if data.shape[-1] not in (3, 4):
        raise ValueError(f"toimage: expected 3 or 4 channels, got {data.shape[-1]}. Change channel_axis.")
    mode = mode or ("RGB" if data.shape[-1] == 3 else "RGBA")
    return Image.frombytes(mode, (data.shape[1], data.shape[0]), np.ascontiguousarray(data).tobytes())


def _gray(data: np.ndarray, high: int, low: int, cmin: Any, cmax: Any, pal: Any, mode: str | None) -> Any:
    from PIL import Image

    size = (data.shape[1], data.shape[0])
    if mode == "F":
        return Image.frombytes("F", size, data.astype(np.float32).tobytes())
    if mode == "I":
        return Image.frombytes("I", size, data.astype(np.int32).tobytes())
    if mode == "1":
        return Image.frombytes("L", size, ((data > 0) * 255).astype(np.uint8).tobytes()).convert("1")
    image = Image.frombytes("L", size, bytescale(data, cmin, cmax, high, low).tobytes())
    if mode == "P" or pal is not None:
        palette = np.arange(256)[:, None].repeat(3, 1) if pal is None else np.asarray(pal)
        image.putpalette(palette.astype(np.uint8).tobytes())
    return image


def fromimage(im: Any, flatten: bool = False, mode: str | None = None) -> np.ndarray:
    """
    Return the pixels of an image, `(height, width)` or `(height, width, channels)`.

    Args:
        flatten: return gray levels as float32.
        mode: the mode of PIL to convert to first, such as "RGB" or "L".
    """
    if mode is not None and im.mode != mode:
        im = im.convert(mode)
    elif mode is None and im.mode == "P":  # a palette
        im = im.convert("RGBA" if "transparency" in im.info else "RGB")
    if flatten:
        im = im.convert("F")
    elif im.mode == "1":
        im = im.convert("L")
    return np.array(im)


def imread(name: Any, flatten: bool = False, mode: str | None = None) -> np.ndarray:
    """Return the pixels of an image file, as `fromimage` does."""
    from PIL import Image

    with Image.open(name) as image:
        return fromimage(image, flatten, mode)


def imsave(name: Any, arr: Any, format: str | None = None) -> None:
    """Write an array to an image file. Values that are not uint8 are scaled to 0 to 255."""
    toimage(arr, channel_axis=2 if np.ndim(arr) == 3 else None).save(name, format)


def imrotate(arr: Any, angle: float, interp: str = "bilinear") -> np.ndarray:
    """Return an image rotated counter-clockwise by an angle in degrees."""
    return fromimage(toimage(arr).rotate(angle, resample=_FILTERS[interp]))


def imresize(arr: Any, size: Any, interp: str = "bilinear", mode: str | None = None) -> np.ndarray:
    """
    Return a resized image. Values that are not uint8 are scaled to 0 to 255 before.

    Args:
        size: percent as an integer, a factor as a float, or (height, width).
        interp: "nearest", "lanczos", "bilinear", "bicubic" or "cubic".
        mode: the mode of PIL for the image before it is resized, such as "F".
    """
    image = toimage(arr, mode=mode)
    if np.issubdtype(np.asarray(size).dtype, np.signedinteger) and np.ndim(size) == 0:
        new = tuple((np.array(image.size) * (size / 100.0)).astype(int))
    elif np.ndim(size) == 0:
        new = tuple((np.array(image.size) * size).astype(int))
    else:
        new = (size[1], size[0])
    return fromimage(image.resize(tuple(int(one) for one in new), resample=_FILTERS[interp]))
