"""Reader of old parameter files: `.npy` files with a pickled dictionary of arrays. It never executes code from the file."""

from __future__ import annotations

import numpy as np

from ..utils.errors import DamagedFileError, parsing
from ..utils.npz import read_npy_header
from ..utils.plain_pickle import load_plain


def load_npy_dict(path: str) -> dict[str, np.ndarray]:
    """
    Read a dictionary of arrays from an `.npy` file.

    Args:
        path: a file written by `np.save(path, {"conv0/W": array, ...})`, with Python 2 or 3.

    Returns:
        `{name: array}`.

    Raises:
        DamagedFileError: the file is damaged, does not contain a dictionary, or would execute code on loading.
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
            f"{path} has the wrong content (expected a dictionary {{name: array}}, got {what}). Save it with np.savez as .npz."
        )
    return content
