"""Parameter files of the first years: an `.npy` file that holds a pickled dictionary of arrays, read without running code."""

from __future__ import annotations

from typing import Any

from ..utils.errors import DamagedFileError, parsing
from ..utils.npz import read_npy_header
from ..utils.plain_pickle import load_plain

__all__ = ["load_npy_dict"]


def load_npy_dict(path: str) -> dict[str, Any]:
    """
    Read a dictionary of arrays from an `.npy` file.

    Args:
        path: what `np.save(path, {"conv0/W": array, ...})` wrote, with Python 2 or 3.

    Returns:
        `{name: array}`.

    Raises:
        DamagedFileError: the file is damaged, holds something other than a dictionary, or would run code on loading.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file, parsing(
        path, "a dictionary of arrays", "Convert it to .npz if you trust it."
    ):
        dtype = read_npy_header(file)[2]
        content = load_plain(file, encoding="latin1").tolist() if dtype.hasobject else dtype
    if not isinstance(content, dict):
        what = f"an array of {content}" if content is dtype else f"a {type(content).__name__}"
        raise DamagedFileError(
            f"{path}: holds {what}, expected a dictionary {{name: array}}. Save it with np.savez as .npz."
        )
    return content
