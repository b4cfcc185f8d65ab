"""What several commands need: the variables of a checkpoint or a parameter file, some of them."""

from __future__ import annotations

import os
import re

import numpy as np

from ..tfutils.varmanip import load_checkpoint_vars

__all__ = ["PATH_HELP", "read_variables"]

PATH_HELP = "a checkpoint (log/model-100), a directory (its latest checkpoint), or an .npz file"


def read_variables(path: str, match: str = "") -> dict[str, np.ndarray]:
    """
    Read variables, sorted by name.

    Args:
        path: of a checkpoint, of the directory of one, or of an `.npz` file.
        match: a regular expression; only variables whose name has it somewhere.

    Returns:
        `{name: array}`.

    Raises:
        FileNotFoundError: there is no such file.
        re.error: `match` is no regular expression.
    """
    pattern = re.compile(match)
    if os.path.isdir(path):
        path = os.path.join(path, "checkpoint")
    variables = load_checkpoint_vars(path)
    return {name: variables[name] for name in sorted(variables) if pattern.search(name)}
