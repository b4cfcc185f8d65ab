"""
Limit on the unpacked size of compressed files.

A malicious file of a few megabytes can unpack to terabytes. A file is rejected if its content is larger than 512 MB and
more than 200 times as large as the file. The environment variable `TENSORPACK_LITE_UNPACK_RATIO` replaces the 200.
"""

from __future__ import annotations

import os
from io import BufferedIOBase
from typing import IO

from .errors import DamagedFileError

_VARIABLE = "TENSORPACK_LITE_UNPACK_RATIO"
_RATIO = 200.0
_ALWAYS_ALLOWED = 1 << 29  # bytes
_CHUNK_BYTES = 1 << 20


def check_unpacked_size(path: str, size: int) -> None:
    """
    Raise an error if a file unpacks to much more than its own size.

    Args:
        path: the compressed file.
        size: the size of its content in bytes, as far as it is known.

    Raises:
        DamagedFileError: the content is too large.
        ValueError: the environment variable is not a number.
    """
    if size <= _ALWAYS_ALLOWED:
        return
    packed = os.path.getsize(path)
    ratio = _allowed_ratio()
    if size > ratio * packed:
        raise DamagedFileError(
            f"{path} unpacks to too much (expected at most {ratio:g} times its {packed} bytes, got {size >> 20} MB or more). "
            f"If you trust the file, set {_VARIABLE} to at least {size // max(packed, 1) + 1}, or to inf."
        )


class BoundedReader:
    """
    A stream of unpacked bytes that raises an error if the file unpacks to too much.

    Args:
        stream: an object with `read`, e.g. the result of `gzip.open`.
        path: the compressed file.
    """

    def __init__(self, stream: IO[bytes] | BufferedIOBase, path: str) -> None:
        self._stream, self._path, self._count = stream, path, 0

    def read(self, size: int = -1) -> bytes:
        """
        Read `size` bytes, or all if it is negative.

        Raises:
            DamagedFileError: the file unpacks to too many bytes, see `check_unpacked_size`.
        """
        chunks: list[bytes] = []
        while size != 0:
            chunk = self._stream.read(_CHUNK_BYTES if size < 0 else min(size, _CHUNK_BYTES))
            if not chunk:
                break
            self._count += len(chunk)
            check_unpacked_size(self._path, self._count)
            chunks.append(chunk)
            size -= len(chunk)  # a negative one stays negative
        return b"".join(chunks)


def _allowed_ratio() -> float:
    text = os.environ.get(_VARIABLE)
    if text is None:
        return _RATIO
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(
            f"check_unpacked_size: {_VARIABLE} is not a number (expected e.g. 1000, or inf for no limit, got {text!r})."
        ) from error
