"""Reader of pickled dicts of arrays, the format of CIFAR, which executes nothing in the pickle."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.errors import DamagedFileError, parsing
from ...utils.plain_pickle import load_plain

__all__ = ["load_array_dict"]

_KINDS = "biuf"  # dtype kinds of numbers


def load_array_dict(path: str) -> dict[str, Any]:
    """
    Read a pickled dict of arrays, written by Python 2 or 3.

    Args:
        path: the file.

    Returns:
        The dict with str keys. Arrays are new and writable; a str of Python 2 becomes bytes.

    Raises:
        DamagedFileError: the pickle is damaged, is not a dict, or contains anything other than plain data.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file, parsing(path, "a pickle of plain data"):
        content = load_plain(file, encoding="bytes")
    if not isinstance(content, dict):
        raise DamagedFileError(f"{path} is not a pickled dict (got {type(content).__name__}).")
    for value in content.values():
        if isinstance(value, np.ndarray) and value.dtype.kind not in _KINDS:
            raise DamagedFileError(f"{path} contains an array of dtype {value.dtype} (expected numbers).")
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()
    }
