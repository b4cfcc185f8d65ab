"""
Check of a MATLAB file (versions 5 to 7.2) before SciPy reads it.

SciPy uses the type of an element as an index without checking it, so a damaged type crashes the process with SIGSEGV.
`check_mat` checks the tags of all uncompressed elements. Compressed elements are protected by zlib's checksum.

Source: "MAT-File Format" by The MathWorks, chapter 1, Level 5 MAT-files.
"""

from __future__ import annotations

import struct
from mmap import mmap

_HEADER_BYTES = 128
_VALUES = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18})  # numbers and texts
_MATRIX, _COMPRESSED, _UINT32 = 14, 15, 6
_CONTAINERS = frozenset({1, 2, 3, 16, 17, 18})  # classes of arrays: cell, struct, object, function, opaque
_LAST_CLASS = 18


def check_mat(content: bytes | mmap) -> None:
    """
    Check the tags of all elements of a file.

    Args:
        content: the whole file, as bytes or mapped.

    Raises:
        ValueError: an element has an unknown type or class, or is longer than its container.
    """
    if len(content) < _HEADER_BYTES or 0 in content[:4]:
        return  # a version 4 file has no tags; SciPy reads it with Python code
    order = "<" if content[126:128] == b"IM" else ">"
    _Elements(content, order).check(_HEADER_BYTES, len(content), frozenset({_MATRIX, _COMPRESSED}))


class _Elements:
    """The elements of a file, which can be nested."""

    def __init__(self, content: bytes | mmap, order: str) -> None:
        self._content = content
        self._tag, self._small_tag = struct.Struct(f"{order}II"), struct.Struct(f"{order}I")

    def check(self, position: int, end: int, allowed: frozenset[int]) -> None:
        """Check the elements between two positions."""
        while position < end:
            kind, start, size = self._read_tag(position, end)
            if kind not in allowed:
                raise ValueError(f"the element at byte {position} has the type {kind}")
            if kind == _MATRIX and size:
                self._check_matrix(start, start + size)
            is_small = start == position + 4
            position = start + (4 if is_small else size if kind == _COMPRESSED else size + -size % 8)

    def _check_matrix(self, position: int, end: int) -> None:
        """Check an array; its first element contains its class."""
        kind, start, size = self._read_tag(position, end)
        if (kind, size) != (_UINT32, 8):
            raise ValueError(f"the array at byte {position} does not start with its flags")
        (flags,) = self._small_tag.unpack_from(self._content, start)
        array_class = flags & 0xFF
        if not 1 <= array_class <= _LAST_CLASS:
            raise ValueError(f"the array at byte {position} has the class {array_class}")
        self.check(start + size, end, _VALUES | {_MATRIX} if array_class in _CONTAINERS else _VALUES)

    def _read_tag(self, position: int, end: int) -> tuple[int, int, int]:
        """Return the type, the start of the data and the number of bytes. A small element has 8 bytes including its tag."""
        if position + 8 > end:
            raise ValueError(f"it is cut off at byte {position}")
        kind, size = self._tag.unpack_from(self._content, position)
        start, room = position + 8, end - position - 8
        if kind >> 16:
            kind, size, start, room = kind & 0xFFFF, kind >> 16, position + 4, 4
        if size > room:
            raise ValueError(f"the element at byte {position} is longer than its container")
        return kind, start, size
