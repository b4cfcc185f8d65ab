"""The command `lint`: runs a script until its training starts, and prints the mistakes that lint finds."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

from ..utils.lint_only import FOUND_NOTHING, FOUND_REMARKS, VARIABLE

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
    if not program[0].startswith("-m") and not os.path.exists(program[0]):
        raise FileNotFoundError(f"{program[0]} does not exist. The current directory is {os.getcwd()}.")
    with tempfile.TemporaryDirectory(prefix="tensorpack-lite-lint-") as directory:
        environment = {**os.environ, VARIABLE: directory}
        code = subprocess.call([sys.executable, *program], env=environment)
    if code in (FOUND_NOTHING, FOUND_REMARKS):
        return int(code == FOUND_REMARKS)
    problem = "ended without a training" if code == 0 else f"failed with exit code {code}"
    sys.stderr.write(f"tensorpack-lite lint: {program[0]} {problem}, so nothing was examined.\n")
    return 2
