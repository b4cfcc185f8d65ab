"""Reader and writer of protocol buffers that does not need protobuf, for the messages of other programs."""

from __future__ import annotations

import struct
from typing import Iterator, Tuple, Union

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_SIZES = {_FIXED64: 8, _FIXED32: 4}


def read_fields(message: bytes) -> Iterator[Tuple[int, Union[int, bytes]]]:
    """
    Read the fields of a message.

    Args:
        message: the serialized message.

    Returns:
        An iterator over (field number, value) in the order of the message. A value is an integer >= 0, or bytes.

    Raises:
        ValueError: (while iterating) the message is cut off or has another format.
    """
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        if kind == _BYTES:
            size, place = _varint(message, place)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise ValueError(f"field {number} is of an unknown kind, {kind}.")
        if place + size > len(message):
            raise ValueError("the message is cut off.")
        yield number, message[place : place + size]
        place += size


def read_integers(value: int | bytes) -> list[int]:
    """
    Read the value of a repeated field of integers.

    Args:
        value: one integer, or the bytes of packed integers.

    Returns:
        The integers.

    Raises:
        ValueError: the bytes are cut off.
    """
    if isinstance(value, int):
        return [value]
    found, place = [], 0
    while place < len(value):
        number, place = _varint(value, place)
        found.append(number)
    return found


def write_field(number: int, value: bool | float | bytes) -> bytes:
    """
    Return a field of a message.

    Args:
        number: its number, at most 15.
        value: a bool; a float, for a field of type double; or the bytes of a string or of another message.
    """
    if isinstance(value, bool):
        return bytes([number << 3 | _VARINT, value])
    if isinstance(value, float):
        return bytes([number << 3 | _FIXED64]) + struct.pack("<d", value)
    groups = [len(value) >> shift & 0x7F for shift in range(0, max(1, len(value).bit_length()), 7)]
    return bytes([number << 3 | _BYTES, *(group | 0x80 for group in groups[:-1]), groups[-1]]) + value


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Read a number in groups of 7 bits, lowest first. Return it and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place == len(message):
            raise ValueError("the message is cut off.")
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number has more than 10 bytes.")
