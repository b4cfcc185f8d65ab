"""The command `find-lr`: proposes a learning rate for a script."""

from __future__ import annotations

import argparse
import os
import sys

from ..diagnostics.probe.request import run_probe
from ..utils.optional import require_optional
from .programs import find_program


def run(args: argparse.Namespace) -> int:
    """
    Run the script until the steps with growing rates are done.

    Returns:
        0 with a proposal, 1 without, 2 if the script has failed or does not train.
    """
    program = find_program(args)
    require_optional("matplotlib", "find-lr")
    output = os.path.abspath(args.output)
    names = {"param": args.variable, "lowest": args.lowest, "highest": args.highest, "num_steps": args.steps}
    code = run_probe("find-lr", program, {**names, "picture": output}, is_quiet=True)
    if code != 2:
        sys.stdout.write(f"The costs are drawn in {args.output}.\n")
    return code
