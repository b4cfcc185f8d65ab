"""The command `data-check`: checks the promises of a DataFlow and finds its bottleneck."""

from __future__ import annotations

import argparse
import sys

from ..diagnostics.data_check.examine import OK, examine
from ..diagnostics.data_check.stage_speed import PipelineSpeed
from ..diagnostics.speed.advice_text import describe_advice, describe_full_cores, describe_part
from ..diagnostics.speed.bottleneck import advise
from ..diagnostics.speed.stage_rows import format_rows, make_rows
from .pipelines import find_function, show_findings


def run(args: argparse.Namespace) -> int:
    """Examine the DataFlow and print the report. Return 1 if it breaks a promise."""
    report = examine(find_function(args.target), seconds=args.seconds, size=args.size, seed=args.seed)
    sys.stdout.write(f"{args.target}\n\n{show_findings(report.findings)}\n")
    if report.speed is not None:
        sys.stdout.write(f"\n{_show_speed(report.speed)}\n")
    unwanted = [f for f in report.findings if f.status != OK] if args.strict else report.broken
    return 1 if unwanted else 0


def _show_speed(speed: PipelineSpeed) -> str:
    load = speed.load
    unit, units = ("batch", "batches") if speed.makes_batches else ("sample", "samples")
    rows = format_rows(make_rows(load.parts, load.num_steps, load.seconds), unit)
    return (
        f"{rows}\n\nThe pipeline yields {speed.per_second:,.1f} {units} per second.\n{_describe_limit(speed)}"
    )


def _describe_limit(speed: PipelineSpeed) -> str:
    if speed.load.cores_are_full:
        return describe_full_cores(speed.load)
    if speed.limit is None:
        return "Which stage limits the speed is not known: measure longer (--seconds), or with no other programs."
    limit = f"{describe_part(speed.limit)} limits the speed."
    return f"{limit} {describe_advice(speed.load, advise(speed.load))}"
