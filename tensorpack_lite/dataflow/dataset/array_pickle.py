"""The pickled dicts of arrays that CIFAR comes as, read without running anything that is in them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ..files.plain_pickle import load_plain

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
        ValueError: the pickle is damaged, is not a dict, or has in it what is not plain data; that is not run.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        packed = io.BytesIO(file.read())
    try:
        content = load_plain(packed, encoding="bytes")
    except ValueError as error:
        raise ValueError(f"{path} is not a pickle of plain data: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a pickled dict, it has {type(content).__name__} in it.")
    for value in content.values():
        if isinstance(value, np.ndarray) and value.dtype.kind not in _KINDS:
            raise ValueError(
                f"{path} is not a pickle of plain data: an array of dtype {value.dtype}, wanted numbers"
            )
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()
    }
