"""The command `checkpoint-diff`: compares the variables of two checkpoints."""

from __future__ import annotations

import argparse
import sys

import numpy as np
from tabulate import tabulate

from .variables import read_variables


def run(args: argparse.Namespace) -> int:
    """Print a table of the variables that differ. Return 1 if any differ."""
    first, second = read_variables(args.first, args.match), read_variables(args.second, args.match)
    names = sorted(set(first) | set(second))
    found = [(name, _difference(first.get(name), second.get(name), args.rtol, args.atol)) for name in names]
    rows = [(name, text) for name, text in found if text]
    if rows:
        sys.stdout.write(tabulate(rows, headers=["name", "difference"]) + "\n\n")
    sys.stdout.write(f"{len(rows)} of {len(names)} variables differ\n")
    return 1 if rows else 0


def _difference(one: np.ndarray | None, other: np.ndarray | None, rtol: float, atol: float) -> str:
    """Describe how two arrays differ; "" if they are equal within the tolerances."""
    if one is None or other is None:
        return "only in the second" if one is None else "only in the first"
    if one.shape != other.shape:
        return f"shape {list(one.shape)} and {list(other.shape)}"
    if one.dtype != other.dtype:
        return f"dtype {one.dtype.name} and {other.dtype.name}"
    if not np.issubdtype(one.dtype, np.number):
        return "" if np.array_equal(one, other) else "values"
    if np.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True):
        return ""
    kind = np.complex128 if np.iscomplexobj(one) else np.float64
    apart = np.abs(one.astype(kind) - other.astype(kind))
    return f"at most {apart.max():.6g} apart, {np.count_nonzero(apart)} of {apart.size} elements"
