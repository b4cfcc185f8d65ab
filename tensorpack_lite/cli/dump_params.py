"""The command `dump-params`: extracts the parameters that inference needs from a checkpoint."""

from __future__ import annotations

import argparse
import os
import re
import sys

from ..tfutils.varmanip import is_training_name, save_checkpoint_vars
from .checkpoints import read_variables

_COUNTER = re.compile(r"(^|/)(global_step|beta\d_power(_\d+)?)$")


def is_parameter(name: str) -> bool:
    """Return whether a variable is not only for training, by its name."""
    return not (is_training_name(name) or _COUNTER.search(name))


def dump_params(args: argparse.Namespace) -> int:
    """Read the variables, drop those that only training needs, and write the rest."""
    if not args.force and (os.path.exists(args.output) or os.path.exists(args.output + ".index")):
        raise FileExistsError(f"{args.output} exists. Choose another name, or pass --force.")
    variables = read_variables(args.input, args.match)
    kept = {name: value for name, value in variables.items() if args.all or is_parameter(name)}
    if not kept:
        raise ValueError(
            f"none of the {len(variables)} selected variables is a parameter. Pass --all, or change --match."
        )
    save_checkpoint_vars(kept, args.output)
    sys.stdout.write(f"{len(kept)} of {len(variables)} variables written to {args.output}\n")
    return 0
