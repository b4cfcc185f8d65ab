"""The pickled dicts of arrays that CIFAR comes as, read without running anything that is in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.errors import DamagedFileError, parsing
from ...utils.plain_pickle import load_plain

__all__ = ["load_array_dict"]

_KINDS = "biuf"  # of numbers


def load_array_dict(path: str) -> dict[str, Any]:
    """
    Read a pickled dict of arrays, as the files of CIFAR are, from Python 2 or 3.

    Args:
        path: of the file.

    Returns:
        The dict, its keys as str. Arrays are new and belong to the caller; what was a str of Python 2 is bytes.

    Raises:
        DamagedFileError: the pickle is damaged, is not a dict, or holds anything other than plain data, which is not run.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file, parsing(path, "a pickle of plain data"):
        content = load_plain(file, encoding="bytes")
    if not isinstance(content, dict):
        raise DamagedFileError(f"{path} is not a pickled dict, it holds {type(content).__name__}.")
    for value in content.values():
        if isinstance(value, np.ndarray) and value.dtype.kind not in _KINDS:
            raise DamagedFileError(f"{path} holds an array of dtype {value.dtype}, expected numbers.")
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()
    }
