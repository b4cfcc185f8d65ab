"""The command `summary`: the layers of a model, of a script or a checkpoint."""

from __future__ import annotations

import argparse
import sys

from tabulate import tabulate

from ..diagnostics.model_summary.show import show_bytes
from ..diagnostics.probe.request import run_probe
from ..tfutils.checkpoint_reader import CheckpointReader
from ..tfutils.varmanip import get_checkpoint_path
from .dump_params import is_parameter
from .files import find_program


def summary(args: argparse.Namespace) -> int:
    """
    Run the script until its training begins, or read the checkpoint.

    Returns:
        0, or 2 if the script has failed or does not train.
    """
    program: list[str] = args.program
    if program and not program[0].startswith("-m") and not program[0].endswith(".py"):
        sys.stdout.write(f"{_summarize(program[0])}\n")
        return 0
    return run_probe("summary", find_program(args), is_quiet=True)


def _summarize(path: str) -> str:
    """Return a table of the parameters in a checkpoint by layer, the scope of their names."""
    checkpoint = CheckpointReader(get_checkpoint_path(path))
    layers: dict[str, list[int]] = {}
    of_training = [0, 0]
    for name, shape in checkpoint.shapes.items():
        num = 1
        for size in shape:
            num *= size
        layer = layers.setdefault(name.rpartition("/")[0], [0, 0]) if is_parameter(name) else of_training
        layer[0] += num
        layer[1] += num * max(1, checkpoint.dtypes[name].size)
    rows = [[name, f"{num:,}", show_bytes(size)] for name, (num, size) in layers.items()]
    sums = [sum(column) for column in zip(*layers.values())] or [0, 0]
    rows.append(["total", f"{sums[0]:,}", show_bytes(sums[1])])
    table = tabulate(
        rows,
        headers=["layer", "parameters", "size"],
        colalign=("left", "right", "right"),
        disable_numparse=True,
    )
    return (
        f"{table}\nVariables that only training needs: {of_training[0]:,}, {show_bytes(of_training[1])}. A checkpoint has no shapes of outputs; "
        "for these, pass the script."
    )
