"""Parameter files of the first years: an `.npy` file that holds a pickled dictionary of arrays, read without running code."""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

import numpy as np

__all__ = ["load_npy_dict"]

# All that NumPy needs to rebuild arrays and scalars, under the module names of every NumPy since 1.0.
_ALLOWED = {
    ("_codecs", "encode"),
    ("collections", "OrderedDict"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy.core.numeric", "_frombuffer"),
}


def load_npy_dict(path: str) -> dict[str, Any]:
    """
    Read a dictionary of arrays from an `.npy` file.

    Args:
        path: what `np.save(path, {"conv0/W": array, ...})` wrote, with Python 2 or 3.

    Returns:
        `{name: array}`.

    Raises:
        ValueError: the file is damaged, holds something else than a dictionary, or would run code on loading.

    tensorpack: fails on NumPy >= 1.16.3, which refuses such files.
    """
    with open(path, "rb") as file:
        content = _read_pickled_array(path, file).tolist()
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: holds a {type(content).__name__}, wanted a dictionary {{name: array}}. Save it with np.savez as .npz."
        )
    return content


def _read_pickled_array(path: str, file: BinaryIO) -> np.ndarray:
    """Read an array of objects: `np.load` leaves no choice but all of pickle or nothing."""
    version = np.lib.format.read_magic(file)
    read_header = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    dtype = read_header(file)[2]
    if not dtype.hasobject:
        raise ValueError(f"{path}: holds an array of {dtype}, wanted a dictionary {{name: array}}.")
    try:
        return _ArrayUnpickler(file, encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise ValueError(f"{path}: {error}") from error


class _ArrayUnpickler(pickle.Unpickler):
    """Builds arrays and containers of Python's own, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Give the class or function that a pickle names, if it is one of the few that arrays need."""
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(
                f"needs {module}.{name}, and only arrays are loaded from .npy files. Convert the file to .npz where you trust it."
            )
        return super().find_class(module, name)
