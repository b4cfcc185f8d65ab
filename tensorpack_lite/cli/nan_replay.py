"""The command `nan-replay`: runs the step again that `TerminateOnNaN` has examined."""

from __future__ import annotations

import argparse
import json
import os
import sys

from ..diagnostics.probe.request import run_probe


def nan_replay(args: argparse.Namespace) -> int:
    """
    Run the script in another process until before its first step, and there the recorded step.

    Returns:
        0 if the step is not finite again, 1 if it is finite, 2 for an error.
    """
    directory = os.path.abspath(args.directory)
    path = os.path.join(directory, "step.json")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} does not exist. Expected a directory nan-<step> that TerminateOnNaN wrote.")
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    program = args.program or record["program"]
    if not program:
        raise ValueError(f"the script of the training is unknown. Name it: nan-replay {args.directory} -- train.py")
    folder = None if args.program else record["working_directory"]
    sys.stdout.write(f"Running {' '.join(program)} until its first step ...\n")
    sys.stdout.flush()
    return run_probe("nan-replay", program, {"step_directory": directory}, folder)
