"""The command `lint`: runs a script until its training starts, and prints the mistakes that lint finds."""

from __future__ import annotations

import argparse

from ..diagnostics.rehearsal.request import run_rehearsal
from .files import check_exists

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """
    Run the script. The log directories of its trainings do not change.

    Returns:
        0 without remarks, 1 with remarks, 2 if the script has failed or does not train.
    """
    program = args.program
    if not program or program == ["-m"]:
        raise ValueError("expected a script. Example: tensorpack-lite lint train.py --gpu 0")
    if not program[0].startswith("-m"):
        check_exists(program[0])
    return run_rehearsal("lint", program)
