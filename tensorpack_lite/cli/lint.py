"""The command `lint`: runs a script until its training starts, and prints the mistakes that lint finds."""

from __future__ import annotations

import argparse
import sys

from ..diagnostics.probe.request import run_probe
from .programs import find_program


def run(args: argparse.Namespace) -> int:
    """
    Run the script. The log directories of its training runs do not change.

    Returns:
        0 without remarks, 1 with remarks, 2 if the script has failed or does not train.
    """
    code = run_probe("lint", find_program(args))
    if code == 0:
        sys.stdout.write("lint: no remarks.\n")
    return code
