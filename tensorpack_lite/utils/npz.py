"""Reader and writer of npz files, which are zip files of NumPy arrays. The reader compares the checksums."""

from __future__ import annotations

import zipfile
from contextlib import contextmanager
from typing import IO, Any, Iterator, Mapping

import numpy as np

from .errors import parsing
from .unpacking import check_unpacked_size

_SUFFIX = ".npy"


def read_npz(path: str) -> dict[str, np.ndarray]:
    """
    Read all arrays of an npz file.

    Args:
        path: the file.

    Returns:
        `{name: array}`, in the order of the file.

    Raises:
        DamagedFileError: the file is damaged, is not an npz file, contains pickled objects, or unpacks to too much (see
            `utils.unpacking`).
        OSError: the file cannot be read.
    """
    with open_npz(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(_SUFFIX)]
        return {name[: -len(_SUFFIX)]: _read_array(archive, name) for name in names}


def write_npz(file: str | IO[bytes], arrays: Mapping[str, np.ndarray | np.generic], compress: bool = False) -> None:
    """
    Write an npz file, which `np.load` can read.

    Unlike `np.savez(file, **arrays)`, it accepts every name, including "file" and "allow_pickle".

    Args:
        file: a path, or a file opened for writing bytes.
        arrays: `{name: array}`.
        compress: compress the arrays. The file is smaller, and writing takes longer.
    """
    compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in arrays.items():
            with archive.open(name + _SUFFIX, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array))


@contextmanager
def open_npz(path: str) -> Iterator[zipfile.ZipFile]:
    """
    Open an npz file as a zip file, after checking its unpacked size.

    Args:
        path: the file.

    Raises:
        DamagedFileError: as in `read_npz`, and for any other error inside the context.
    """
    with parsing(path, "an npz file"), zipfile.ZipFile(path) as archive:
        check_unpacked_size(path, sum(member.file_size for member in archive.infolist()))
        yield archive


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """
    Read the header of an array in NumPy's npy format, of any version.

    Args:
        file: a file opened for reading, at the start of the array. Afterwards it is at the end of the header.

    Returns:
        The shape, whether the array is in column-major order, and the dtype.

    Raises:
        ValueError: the file has no such header.
    """
    if np.lib.format.read_magic(file) == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as file:
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):  # at the end of the member, zipfile compares the checksum
            raise ValueError(f"{name} is longer than its header says")
    return array
