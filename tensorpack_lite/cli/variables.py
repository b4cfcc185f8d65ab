"""Reading of variables and states, for the commands that work on checkpoints and parameter files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ..utils.npz import read_npz
from .files import check_exists

if TYPE_CHECKING:
    from ..utils.packed_state import StateFile


def read_variables(path: str, match: str = "") -> dict[str, np.ndarray]:
    """
    Read variables, sorted by name. Only checkpoints need TensorFlow; an `.npz` file does not.

    Args:
        path: a checkpoint, a directory with checkpoints, or an `.npz` file.
        match: a regular expression; only variables whose names contain it are returned.

    Returns:
        `{name: array}`.

    Raises:
        FileNotFoundError: the file does not exist.
        DamagedFileError: the file is damaged.
        re.error: `match` is not a valid regular expression.
    """
    pattern = re.compile(match)
    if path.endswith(".npz"):
        arrays = read_npz(check_exists(path))
        variables = {re.sub(r":\d+$", "", name): value for name, value in arrays.items()}
    else:
        from ..tfutils.varmanip import load_checkpoint_vars

        variables = load_checkpoint_vars(path)
    return {name: variables[name] for name in sorted(variables) if pattern.search(name)}


def read_state_of(path: str) -> StateFile | None:
    """
    Read the `.state` file of a checkpoint.

    Args:
        path: a checkpoint, a directory with checkpoints, or an `.npz` file.

    Returns:
        Its content, or None if there is none.

    Raises:
        DamagedFileError: the file is damaged.
        ValueError: a newer version of the library wrote the file.
    """
    if path.endswith(".npz"):
        return None
    from ..tfutils.checkpoint_state import STATE_SUFFIX, read_state_file
    from ..tfutils.varmanip import get_checkpoint_path

    return read_state_file(get_checkpoint_path(path) + STATE_SUFFIX)
