"""The command `ls-checkpoint`: lists the variables in a checkpoint, and the state of the training that saved it."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Iterator

import numpy as np
from tabulate import tabulate

from .variables import read_state_of, read_variables

_WIDTH = 70


def run(args: argparse.Namespace) -> int:
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
