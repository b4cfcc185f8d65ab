"""
Limit on the size that a compressed file may unpack to.

A file of a few megabytes can be made to unpack to terabytes. A file is refused if its content is larger than 512 MB and
also more than 200 times as large as the file; the environment variable `TENSORPACK_LITE_UNPACK_RATIO` replaces the 200.
"""

from __future__ import annotations

import os
from typing import Any

from .errors import DamagedFileError

__all__ = ["BoundedReader", "check_unpacked_size"]

_VARIABLE = "TENSORPACK_LITE_UNPACK_RATIO"
_RATIO = 200.0
_NEVER_REFUSED = 1 << 29  # bytes
_CHUNK_BYTES = 1 << 20


def check_unpacked_size(path: str, size: int) -> None:
    """
    Refuse a file that unpacks to much more than its own size.

    Args:
        path: of the compressed file.
        size: of its content, in bytes, as far as it is known.

    Raises:
        DamagedFileError: the content is too large.
        ValueError: the environment variable is not a number.
    """
    if size <= _NEVER_REFUSED:
        return
    packed = os.path.getsize(path)
    ratio = _allowed_ratio()
    if size > ratio * packed:
        raise DamagedFileError(
            f"{path} unpacks to {size >> 20} MB or more from {packed} bytes, and over {ratio:g} times the size is refused. "
            f"If you trust the file, set {_VARIABLE} to at least {size // max(packed, 1) + 1}, or to inf."
        )


class BoundedReader:
    """
    A stream of unpacked bytes that ends with an error when the file unpacks to too much.

    Args:
        stream: has `read`, e.g. what `gzip.open` returns.
        path: of the compressed file.
    """

    def __init__(self, stream: Any, path: str) -> None:
        self._stream, self._path, self._count = stream, path, 0

    def read(self, size: int = -1) -> bytes:
        """
        Read some bytes, or all.

        Raises:
            DamagedFileError: these and the bytes before are too many, see `check_unpacked_size`.
        """
        if size < 0 or size > _CHUNK_BYTES:
            return self._read_chunks(size)
        content: bytes = self._stream.read(size)
        self._count += len(content)
        check_unpacked_size(self._path, self._count)
        return content

    def _read_chunks(self, size: int) -> bytes:
        chunks, count = [], 0
        while size < 0 or count < size:
            chunk = self.read(_CHUNK_BYTES if size < 0 else min(size - count, _CHUNK_BYTES))
            if not chunk:
                break
            chunks.append(chunk)
            count += len(chunk)
        return b"".join(chunks)


def _allowed_ratio() -> float:
    text = os.environ.get(_VARIABLE)
    if text is None:
        return _RATIO
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(
            f"${_VARIABLE} is {text!r}, expected a number, e.g. 1000, or inf for no limit."
        ) from error
