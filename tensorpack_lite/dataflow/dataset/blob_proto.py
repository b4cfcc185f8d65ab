"""
The one kind of protocol buffer that a data set needs: Caffe's `BlobProto`, an array of floats, without Caffe.

Fields of the message, by number: 1 to 4 num, channels, height, width (old shape); 5 data (float); 7 shape, a message
whose field 1 are the sizes; 8 double_data.
"""

from __future__ import annotations

import struct
from typing import Iterator

import numpy as np

__all__ = ["read_blob_proto"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_OLD_SHAPE, _DATA, _SHAPE, _DOUBLE_DATA = (1, 2, 3, 4), 5, 7, 8


def read_blob_proto(path: str) -> np.ndarray:
    """
    Read the array of a `.binaryproto` file.

    Args:
        path: of the file.

    Returns:
        float32, of the file's shape; an old one without its leading sizes of 1: [3, 256, 256] for ImageNet's mean.

    Raises:
        ValueError: it is cut off, or no such message.
        OSError: it cannot be opened.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        return _decode(content)
    except (IndexError, struct.error, ValueError) as error:
        raise ValueError(
            f"{path} ({len(content)} bytes) is not a BlobProto, or is cut off: {error}"
        ) from error


def _decode(content: bytes) -> np.ndarray:
    old_shape = dict.fromkeys(_OLD_SHAPE, 1)
    shape: list[int] = []
    values = []
    for number, value in _fields(content):
        if number in old_shape and isinstance(value, int):
            old_shape[number] = value
        elif number == _SHAPE and isinstance(value, bytes):
            shape = [size for key, sizes in _fields(value) if key == 1 for size in _integers(sizes)]
        elif number in (_DATA, _DOUBLE_DATA) and isinstance(value, bytes):
            values.append(np.frombuffer(value, "<f4" if number == _DATA else "<f8"))
    array = np.concatenate(values).astype(np.float32)
    if not shape:
        shape = list(old_shape.values())
        while len(shape) > 1 and shape[0] == 1:
            shape.pop(0)
    return array.reshape(shape)


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field: an integer, or bytes."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, at = _varint(content, at)
            yield number, value
            continue
        if wire_type == _BYTES:
            size, at = _varint(content, at)
        elif wire_type in _SIZES:
            size = _SIZES[wire_type]
        else:
            raise ValueError(f"wire type {wire_type} at byte {at}")
        if at + size > len(content):
            raise ValueError(f"field {number} says {size} bytes, {len(content) - at} are left")
        yield number, content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, the lowest first; return it, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number of more than ten bytes before byte {at}")


def _integers(value: int | bytes) -> list[int]:
    """Read what is repeated: one integer, or packed ones."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found
