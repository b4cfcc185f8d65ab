"""The command `data-check`: checks the promises of a DataFlow and finds its bottleneck."""

from __future__ import annotations

import argparse
import sys

from tabulate import tabulate

from ..dataflow.doctor.examine import OK, examine
from ..dataflow.doctor.stage_speed import PipelineSpeed, StageSpeed
from .pipelines import find_function, show_findings

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Examine the DataFlow and print the report. Return 1 if it breaks a promise."""
    report = examine(find_function(args.target), seconds=args.seconds, size=args.size, seed=args.seed)
    sys.stdout.write(f"{args.target}\n\n{show_findings(report.findings)}\n")
    if report.speed is not None:
        sys.stdout.write(f"\n{_show_speed(report.speed)}\n")
    unwanted = [f for f in report.findings if f.status != OK] if args.strict else report.broken
    return 1 if unwanted else 0


def _show_speed(speed: PipelineSpeed) -> str:
    rows = [
        (
            ". " * stage.depth + stage.name,
            stage.place,
            "waits for workers" if stage.waits else f"{stage.share:.0%}",
            "" if stage.waits else f"{stage.per_second:,.0f} {stage.unit}/s",
        )
        for stage in speed.stages
    ]
    table = tabulate(
        rows,
        headers=["stage", "runs", "share of time", "speed alone"],
        colalign=("left", "left", "right", "right"),
    )
    return (
        f"{table}\n\nThe pipeline yields {speed.per_second:,.1f} {speed.stages[0].unit} per second.\n"
        f"Limited by {speed.limit.name} ({speed.limit.place}): {_advice(speed.limit)}"
    )


def _advice(limit: StageSpeed) -> str:
    if limit.num_workers > 1:
        return f"make it faster, or use more than {limit.num_workers} workers if there are enough CPU cores."
    if limit.place != "here":
        return "make it faster, or use more than one worker if there are enough CPU cores."
    return "make it faster, or run it in workers: MultiProcessMapData, MultiThreadMapData, MultiProcessRunnerZMQ."
