"""`dump-params`: from a checkpoint of a training to the parameters that inference needs."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import Any

from ..tfutils.varmanip import is_training_name, save_checkpoint_vars
from .variables import PATH_HELP, read_variables

__all__ = ["add_parser", "run"]

_COUNTER = re.compile(r"(^|/)(global_step|beta[12]_power(_\d+)?)$")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command's arguments."""
    text = "Write the parameters of a checkpoint to a file, without what only training needs."
    parser: argparse.ArgumentParser = commands.add_parser(
        "dump-params",
        help=text,
        description=text,
        epilog="What training alone needs is told by its name: slots of optimizers, moving averages of summaries, step counters.",
    )
    parser.add_argument("input", help=PATH_HELP)
    parser.add_argument("output", help="x.npz for an npz file, anything else for a checkpoint of that name")
    parser.add_argument("--match", default="", help="only names in which this regular expression is found")
    parser.add_argument("--all", action="store_true", help="keep what only training needs as well")
    parser.add_argument("--force", action="store_true", help="replace the output if it exists")
    return parser


def run(args: argparse.Namespace) -> int:
    """Read, choose, write."""
    if not args.force and (os.path.exists(args.output) or os.path.exists(args.output + ".index")):
        raise FileExistsError(f"{args.output} exists. Name another file, or pass --force.")
    variables = read_variables(args.input, args.match)
    kept = {name: value for name, value in variables.items() if args.all or not _is_for_training(name)}
    if not kept:
        raise ValueError(
            f"none of the {len(variables)} variables is left to write. Pass --all, or another --match."
        )
    save_checkpoint_vars(kept, args.output)
    sys.stdout.write(f"{len(kept)} of {len(variables)} variables written to {args.output}\n")
    return 0


def _is_for_training(name: str) -> bool:
    return is_training_name(name) or _COUNTER.search(name) is not None
