"""`ls-checkpoint`: the variables in a checkpoint."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from tabulate import tabulate

from .variables import PATH_HELP, read_variables

__all__ = ["add_parser", "run"]


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command's arguments."""
    text = "List the variables in a checkpoint or a parameter file."
    parser: argparse.ArgumentParser = commands.add_parser("ls-checkpoint", help=text, description=text)
    parser.add_argument("path", help=PATH_HELP)
    parser.add_argument("--match", default="", help="only names in which this regular expression is found")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print a table of names, shapes, dtypes and numbers of elements, and the totals."""
    variables = read_variables(args.path, args.match)
    rows = [(name, list(a.shape), a.dtype.name, a.size) for name, a in variables.items()]
    num_bytes = sum(array.nbytes for array in variables.values())
    num_elements = sum(array.size for array in variables.values())
    sys.stdout.write(tabulate(rows, headers=["name", "shape", "dtype", "elements"]))
    sys.stdout.write(f"\n\n{len(rows)} variables, {num_elements} elements, {num_bytes / 1024**2:.2f} MB\n")
    return 0
