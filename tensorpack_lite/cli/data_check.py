"""`data-check`: is it the data? Runs a DataFlow, and says which promises it breaks and which stage limits its speed."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import textwrap
from typing import Any

from tabulate import tabulate

from ..dataflow.doctor.examine import OK, Report, examine
from ..dataflow.doctor.stage_speed import PipelineSpeed, StageSpeed

__all__ = ["add_parser", "run"]

_WIDTH = 88  # of the column of sentences


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command's arguments."""
    text = "Run a DataFlow; report the promises it breaks (exit code 1) and which stage limits its speed."
    parser: argparse.ArgumentParser = commands.add_parser(
        "data-check",
        help=text,
        description=text,
        epilog="Example: write `def get_data(): return BatchData(...)` into train.py, and run: data-check train:get_data",
    )
    parser.add_argument(
        "target",
        metavar="module:function",
        help="builds the DataFlow, without arguments; also path/to/file.py:function",
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="how long each check may run, about (default %(default)s)"
    )
    parser.add_argument(
        "--size",
        type=int,
        default=2000,
        help="datapoints that each check looks at, at most (default %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=7, help="for the check of determinism (default %(default)s)"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 for warnings, too")
    return parser


def run(args: argparse.Namespace) -> int:
    """Examine and print; returns 1 if a promise is broken."""
    report = examine(_find_function(args.target), seconds=args.seconds, size=args.size, seed=args.seed)
    sys.stdout.write(f"{args.target}\n\n{_show_findings(report)}\n")
    if report.speed is not None:
        sys.stdout.write(f"\n{_show_speed(report.speed)}\n")
    unwanted = [f for f in report.findings if f.status != OK] if args.strict else report.broken
    return 1 if unwanted else 0


def _find_function(target: str) -> Any:
    """Import what `module:function` names."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise ValueError(f"takes module:function, got '{target}'. Example: data-check train:get_data")
    if os.getcwd() not in sys.path:  # `python -m` has it, the script `tensorpack-lite` does not
        sys.path.insert(0, os.getcwd())
    if place.endswith(".py"):
        if not os.path.isfile(place):
            raise FileNotFoundError(f"there is no file {place}.")
        # workers that are spawned import it by its name
        sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
        place = os.path.splitext(os.path.basename(place))[0]
    function = getattr(importlib.import_module(place), name, None)
    if not callable(function):
        raise ValueError(f"{place} has no function '{name}'.")
    return function


def _show_findings(report: Report) -> str:
    rows = [(f.check, f.status, textwrap.fill(f.text, _WIDTH)) for f in report.findings]
    return tabulate(rows, headers=["check", "result", "what was seen"])


def _show_speed(speed: PipelineSpeed) -> str:
    rows = [
        (
            ". " * stage.depth + stage.name,
            stage.place,
            "waits for workers" if stage.waits else f"{stage.share:.0%}",
            "" if stage.waits else f"{stage.per_second:,.0f}",
        )
        for stage in speed.stages
    ]
    table = tabulate(
        rows,
        headers=["stage", "runs", "of its part's time", "datapoints/s alone"],
        colalign=("left", "left", "right", "right"),
    )
    return (
        f"{table}\n\n{speed.per_second:,.1f} datapoints per second.\n"
        f"Limited by {speed.limit.name} ({speed.limit.place}): {_advice(speed.limit)}"
    )


def _advice(limit: StageSpeed) -> str:
    if limit.num_workers > 1:
        return (
            f"make it faster, or use more than {limit.num_workers} workers, as long as there are processors."
        )
    if limit.place != "here":
        return "make it faster, or use more than one worker, as long as there are processors."
    return "make it faster, or run it in workers: MultiProcessMapData, MultiThreadMapData, MultiProcessRunnerZMQ."
