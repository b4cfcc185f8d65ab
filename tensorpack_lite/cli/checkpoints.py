"""The commands `ls-checkpoint` and `checkpoint-diff`, and the reading of variables and states for all commands."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Iterator

import numpy as np
from tabulate import tabulate

from ..utils.npz import read_npz
from .files import check_exists

if TYPE_CHECKING:
    from ..utils.packed_state import StateFile

_WIDTH = 70


def read_variables(path: str, match: str = "") -> dict[str, np.ndarray]:
    """
    Read variables, sorted by name. Only checkpoints need TensorFlow; an `.npz` file does not.

    Args:
        path: a checkpoint, a directory with checkpoints, or an `.npz` or `.safetensors` file.
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
        path: a checkpoint, a directory with checkpoints, or an `.npz` or `.safetensors` file.

    Returns:
        Its content, or None if there is none.

    Raises:
        DamagedFileError: the file is damaged.
        ValueError: a newer version of the library wrote the file.
    """
    if path.endswith((".npz", ".safetensors")):
        return None
    from ..tfutils.checkpoint_state import STATE_SUFFIX, read_state_file
    from ..tfutils.varmanip import get_checkpoint_path

    return read_state_file(get_checkpoint_path(path) + STATE_SUFFIX)


def ls_checkpoint(args: argparse.Namespace) -> int:
    """
    Print the name, shape, dtype and number of elements of each variable, and the totals.

    If the checkpoint has a `.state` file, its entries follow: the place of the training, the states of callbacks, and
    whatever else the version that wrote it has saved. The content of arrays and of long lists is not printed.
    """
    variables = read_variables(args.path, args.match)
    rows = [(name, list(a.shape), a.dtype.name, a.size) for name, a in variables.items()]
    num_bytes = sum(array.nbytes for array in variables.values())
    num_elements = sum(array.size for array in variables.values())
    sys.stdout.write(tabulate(rows, headers=["name", "shape", "dtype", "elements"]))
    sys.stdout.write(f"\n\n{len(rows)} variables, {num_elements} elements, {num_bytes / 1024**2:.2f} MB\n")
    file = read_state_of(args.path)
    if file is not None:
        entries = [(name, text) for name, text in _entries(file.state, "") if re.search(args.match, name)]
        table = tabulate(entries, headers=["state", "value"], disable_numparse=True)
        sys.stdout.write(
            f"\n{table}\n\nState of the training: {len(entries)} entries, {file.num_bytes} bytes, "
            f"format {file.format} of version {file.version}\n"
        )
    return 0


def _entries(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Yield the path and a description of each leaf of a state. A list without arrays and dicts is a leaf."""
    if isinstance(value, dict) and value:
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, (dict, list, np.ndarray)) for item in value):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        yield name, _describe(value)
        return
    for key, item in items:
        yield from _entries(item, f"{name}/{key}" if name else key)


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}, {value.nbytes} bytes"
    text = repr(value)
    if len(text) <= _WIDTH:
        return text
    kind = f"list of {len(value)}: " if isinstance(value, list) else ""
    return f"{kind}{text[: _WIDTH - len(kind)]}..."


def checkpoint_diff(args: argparse.Namespace) -> int:
    """Print a table of the variables that differ. Return 1 if any differ."""
    first, second = read_variables(args.first, args.match), read_variables(args.second, args.match)
    names = sorted(set(first) | set(second))
    found = [(name, _difference(first.get(name), second.get(name), args.rtol, args.atol)) for name in names]
    rows = [(name, text) for name, text in found if text]
    if rows:
        sys.stdout.write(tabulate(rows, headers=["name", "difference"]) + "\n\n")
    sys.stdout.write(f"{len(rows)} of {len(names)} variables differ\n")
    return 1 if rows else 0


def _difference(first: np.ndarray | None, second: np.ndarray | None, rtol: float, atol: float) -> str:
    """Describe how two arrays differ; "" if they are equal within the tolerances."""
    if first is None or second is None:
        return "only in the second" if first is None else "only in the first"
    if first.shape != second.shape:
        return f"shape {list(first.shape)} and {list(second.shape)}"
    if first.dtype != second.dtype:
        return f"dtype {first.dtype.name} and {second.dtype.name}"
    if not np.issubdtype(first.dtype, np.number):
        return "" if np.array_equal(first, second) else "values"
    if np.allclose(first, second, rtol=rtol, atol=atol, equal_nan=True):
        return ""
    kind = np.complex128 if np.iscomplexobj(first) else np.float64
    apart = np.abs(first.astype(kind) - second.astype(kind))
    return f"at most {apart.max():.6g} apart, {np.count_nonzero(apart)} of {apart.size} elements"
