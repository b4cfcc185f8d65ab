"""The command `schedule`: shows the values that hyper-parameters will have in a training, before it starts."""

from __future__ import annotations

import argparse
import os

from ..diagnostics.probe.request import run_probe
from ..utils.optional import require_optional
from .programs import find_program


def run(args: argparse.Namespace) -> int:
    """
    Run the script until its training begins.

    Returns:
        0; 1 if no callback has values that are known before training; 2 if the script has failed or does not train.
    """
    program = find_program(args)
    if args.output is not None:
        require_optional("matplotlib", "schedule")
    output = None if args.output is None else os.path.abspath(args.output)
    return run_probe("schedule", program, {"epochs": args.epochs, "output": output}, is_quiet=True)
