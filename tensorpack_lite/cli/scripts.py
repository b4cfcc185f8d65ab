"""The commands that run a script for a while: `lint`, `rehearse`, `schedule`, `find-lr`, `find-batch`, `nan-replay`. No log directory is changed."""

from __future__ import annotations

import argparse
import json
import os
import sys

from ..diagnostics.probe.find_batch import find_batch as search_batch
from ..diagnostics.probe.rehearse import rehearse as start_rehearsal
from ..diagnostics.probe.request import run_probe
from ..utils.optional import require_optional
from .files import find_program


def lint(args: argparse.Namespace) -> int:
    """
    Run the script until its training starts, and print the mistakes that lint finds.

    Returns:
        0 without remarks, 1 with remarks, 2 if the script has failed or does not train.
    """
    code = run_probe("lint", find_program(args))
    if code == 0:
        sys.stdout.write("lint: no remarks.\n")
    return code


def rehearse(args: argparse.Namespace) -> int:
    """
    Go through a whole training in seconds.

    Returns:
        0; 1 if a part of the training has failed; 2 if the script has failed before, or does not train.
    """
    return start_rehearsal(find_program(args))


def schedule(args: argparse.Namespace) -> int:
    """
    Show the values that hyper-parameters will have in a training.

    Returns:
        0; 1 if no callback has values that are known before training; 2 if the script has failed or does not train.
    """
    program = find_program(args)
    if args.output is not None:
        require_optional("matplotlib", "schedule")
    output = None if args.output is None else os.path.abspath(args.output)
    return run_probe("schedule", program, {"epochs": args.epochs, "output": output}, is_quiet=True)


def find_lr(args: argparse.Namespace) -> int:
    """
    Propose a learning rate, by steps with growing rates.

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


def find_batch(args: argparse.Namespace) -> int:
    """
    Propose a batch size: double it until memory or the gain ends.

    Returns:
        0; 1 if the batch of the script does not fit into memory; 2 if the script has failed or cannot be measured.
    """
    return search_batch(find_program(args), args.steps, args.gain, args.memory)


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
