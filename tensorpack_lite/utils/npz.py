"""Reader of npz files, which are zip files of NumPy arrays. Every member has a checksum, which is compared."""

from __future__ import annotations

import zipfile
from contextlib import contextmanager
from typing import IO, Any, Iterator

import numpy as np

from .errors import parsing
from .unpacking import check_unpacked_size

__all__ = ["open_npz", "read_npy_header", "read_npz"]

_SUFFIX = ".npy"


def read_npz(path: str) -> dict[str, np.ndarray]:
    """
    Read all arrays of an npz file.

    Args:
        path: of the file.

    Returns:
        `{name: array}`, in the order of the file.

    Raises:
        DamagedFileError: the file is damaged, is not an npz file, holds pickled objects, or unpacks to too much (see
            `utils.unpacking`).
        OSError: the file cannot be read.
    """
    with open_npz(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(_SUFFIX)]
        return {name[: -len(_SUFFIX)]: _read_array(archive, name) for name in names}


@contextmanager
def open_npz(path: str) -> Iterator[zipfile.ZipFile]:
    """
    Open an npz file as a zip file whose unpacked size is within the limit. The body is `parsing`'s: errors get the path.

    Args:
        path: of the file.

    Raises:
        DamagedFileError: as `read_npz`, and for any other error in the body.
    """
    with parsing(path, "an npz file"), zipfile.ZipFile(path) as archive:
        check_unpacked_size(path, sum(member.file_size for member in archive.infolist()))
        yield archive


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """
    Read the head of an array in NumPy's npy format, of any version.

    Args:
        file: open for reading at the start of the array; it stands behind the head afterwards.

    Returns:
        Shape, whether columns come first, and dtype.

    Raises:
        ValueError: it is not such an array.
    """
    if np.lib.format.read_magic(file) == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as file:
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):  # at the end of the member, zipfile compares the checksum
            raise ValueError(f"{name} is longer than its head says")
    return array
