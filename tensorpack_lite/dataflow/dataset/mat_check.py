"""
Check of a MATLAB file (versions 5 to 7.2) before SciPy reads it.

SciPy takes the type of an element as an index without a check, so a damaged type ends the process by SIGSEGV. The check
follows the tags of all elements that are not compressed; compressed ones have zlib's checksum.

Source: "MAT-File Format" by The MathWorks, chapter 1, Level 5 MAT-files.
"""

from __future__ import annotations

import struct
from mmap import mmap

__all__ = ["check_mat"]

_HEADER_BYTES = 128
_VALUES = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18})  # numbers and texts
_MATRIX, _COMPRESSED, _UINT32 = 14, 15, 6
_CONTAINERS = frozenset({1, 2, 3, 16, 17, 18})  # classes of arrays: cell, struct, object, function, opaque
_LAST_CLASS = 18


def check_mat(content: bytes | mmap) -> None:
    """
    Follow the elements of a file.

    Args:
        content: of the whole file, as bytes or mapped.

    Raises:
        ValueError: an element has an unknown type or class, or is longer than what it lies in.
    """
    if len(content) < _HEADER_BYTES or 0 in content[:4]:
        return  # a file of version 4 has no tags; SciPy's reader for it is Python code
    order = "<" if content[126:128] == b"IM" else ">"
    _Elements(content, order).check(_HEADER_BYTES, len(content), frozenset({_MATRIX, _COMPRESSED}))


class _Elements:
    """The elements of a file, each inside another one or inside the file."""

    def __init__(self, content: bytes | mmap, order: str) -> None:
        self._content = content
        self._tag, self._small_tag = struct.Struct(f"{order}II"), struct.Struct(f"{order}I")

    def check(self, place: int, end: int, allowed: frozenset[int]) -> None:
        """Check the elements from one place to another."""
        while place < end:
            kind, start, size = self._read_tag(place, end)
            if kind not in allowed:
                raise ValueError(f"the element at byte {place} has the type {kind}")
            if kind == _MATRIX and size:
                self._check_matrix(start, start + size)
            is_small = start == place + 4
            place = start + (4 if is_small else size if kind == _COMPRESSED else size + -size % 8)

    def _check_matrix(self, place: int, end: int) -> None:
        """The first element of an array has its class."""
        kind, start, size = self._read_tag(place, end)
        if (kind, size) != (_UINT32, 8):
            raise ValueError(f"the array at byte {place} does not begin with its flags")
        (flags,) = self._small_tag.unpack_from(self._content, start)
        array_class = flags & 0xFF
        if not 1 <= array_class <= _LAST_CLASS:
            raise ValueError(f"the array at byte {place} has the class {array_class}")
        self.check(start + size, end, _VALUES | {_MATRIX} if array_class in _CONTAINERS else _VALUES)

    def _read_tag(self, place: int, end: int) -> tuple[int, int, int]:
        """Return type, start of the data, and number of bytes; a small element has all in 8 bytes."""
        if place + 8 > end:
            raise ValueError(f"it is cut off at byte {place}")
        kind, size = self._tag.unpack_from(self._content, place)
        start, room = place + 8, end - place - 8
        if kind >> 16:
            kind, size, start, room = kind & 0xFFFF, kind >> 16, place + 4, 4
        if size > room:
            raise ValueError(f"the element at byte {place} is longer than what it lies in")
        return kind, start, size
