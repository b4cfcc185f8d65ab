"""Descriptions of plain values and arrays, for `describe`. They call nothing of a user's class."""

from __future__ import annotations

import hashlib
import math
import mmap
import zlib
from enum import Enum
from typing import Any

import numpy as np

from .inspection import class_name, instance_attributes, root_of

PLAIN = (type(None), bool, int, float, str)
STOPPED = "..."
"""In place of a value that is not described, because a limit was reached."""

_MAX_CHARS = 2000
_MAX_BYTES = 1 << 16
_MAX_BITS = 1024  # of an integer
_NUM_SAMPLED = 4096
_NUM_CHARS_SAMPLED = 256  # of each string in an array


def checksum(array: np.ndarray) -> str:
    """Return the dtype, the shape, and the CRC-32 of all elements or, of a large array, of about 4096 of them."""
    plain = np.ndarray.view(array, np.ndarray)  # a subclass may have other methods
    flat = plain.flat[:: max(1, plain.size // _NUM_SAMPLED) | 1]
    content = repr(list(map(_sample, flat.tolist()))).encode() if plain.dtype.hasobject else flat.tobytes()
    return f"{plain.dtype} {plain.shape} {zlib.crc32(content):08x}"


def describe_array(array: np.ndarray) -> dict[str, Any]:
    """Describe an array by its `checksum`; an array in a file, whose elements may take long to read, by dtype and shape."""
    owner: Any = array
    while issubclass(type(owner), np.ndarray):
        owner = vars(np.ndarray)["base"].__get__(owner)
    if issubclass(type(owner), mmap.mmap):
        plain = np.ndarray.view(array, np.ndarray)
        return {"array": f"{plain.dtype} {plain.shape} in a file"}
    return {"array": checksum(array)}


def describe_bytes(content: Any) -> dict[str, Any]:
    """Describe bytes by their length and a digest of the first 64 KB."""
    view = memoryview(content)
    return {"length": view.nbytes, "digest": digest(bytes(view[:_MAX_BYTES]).hex())}


def describe_scalar(value: Any, kind: type) -> Any:
    """Describe None, a number, a string or a member of an Enum, whose type is `kind`."""
    if value is None or kind is bool:
        return value
    if issubclass(kind, Enum):
        return f"{kind.__name__}.{instance_attributes(value).get('_name_')}"
    if issubclass(kind, float):
        number = float.__float__(value)
        return number if math.isfinite(number) else str(number)
    if issubclass(kind, int):
        bits = int.bit_length(value)
        return int.__int__(value) if bits <= _MAX_BITS else {"type": class_name(kind), "bits": bits}
    if issubclass(kind, str):
        text = str.__getitem__(value, slice(_MAX_CHARS))
        return text if str.__len__(value) <= _MAX_CHARS else text + STOPPED
    item = np.generic.item(value)
    if type(item) in PLAIN:
        return describe_scalar(item, type(item))
    return str(item)[:_MAX_CHARS] if root_of(type(item)) == "numpy" else {"type": class_name(kind)}


def is_short(value: Any) -> bool:
    """Return whether a value is None, a number or a string of the built-in classes, and not too long to be written."""
    kind = type(value)
    if kind is str:
        return len(value) <= _MAX_CHARS
    return kind in PLAIN and (kind is not int or value.bit_length() <= _MAX_BITS)


def _sample(item: Any) -> Any:
    """Return a short value in place of an element of an array of objects."""
    kind = type(item)
    if kind in (str, bytes):
        return item if len(item) <= _NUM_CHARS_SAMPLED else (len(item), item[:_NUM_CHARS_SAMPLED])
    return item if is_short(item) else class_name(kind)


def describe_key(key: Any, number: int) -> str:
    """Return the text of a dict's key, or its class and its number in the dict."""
    if issubclass(type(key), Enum):
        return str(describe_scalar(key, type(key)))
    if is_short(key) or (issubclass(type(key), np.generic) and root_of(type(key)) == "numpy"):
        return str(key)[:_MAX_CHARS]
    return f"{class_name(type(key))} {number}"


def digest(text: str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()[:16]
