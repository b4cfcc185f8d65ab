"""The commands that run a DataFlow: `data-check` checks its promises and finds its bottleneck, `resume-check` cuts and restores it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import textwrap
from functools import partial
from typing import Any, Callable, Sequence

from tabulate import tabulate

from ..diagnostics.data_check.examine import BROKEN, OK, Finding, examine
from ..diagnostics.data_check.resume_check import check_resume
from ..diagnostics.data_check.stage_speed import PipelineSpeed
from ..diagnostics.speed.advice_text import describe_advice, describe_full_cores, describe_part
from ..diagnostics.speed.bottleneck import advise
from ..diagnostics.speed.stage_rows import format_rows, make_rows
from .files import check_exists

_WIDTH = 88  # columns for the findings
_REASON_WIDTH = 80


def _call(target: str) -> Any:
    """Call the function that `module:function` names."""
    return _find_function(target)()


def _find_function(target: str) -> Callable[[], Any]:
    """Import the function that `module:function` names."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise ValueError(f"expected module:function, got '{target}'. Example: data-check train:get_data")
    if os.getcwd() not in sys.path:  # the script `tensorpack-lite` does not have it, unlike `python -m`
        sys.path.insert(0, os.getcwd())
    if place.endswith(".py"):
        directory = os.path.dirname(os.path.abspath(check_exists(place)))
        if directory not in sys.path:  # spawned workers import it by name
            sys.path.insert(0, directory)
        place = os.path.splitext(os.path.basename(place))[0]
    function = getattr(importlib.import_module(place), name, None)
    if not callable(function):
        raise ValueError(f"{place} has no function '{name}'.")
    return function


def _show_findings(findings: Sequence[Finding]) -> str:
    """Return the findings as a table."""
    rows = [(f.check, f.status, textwrap.fill(f.text, _WIDTH)) for f in findings]
    return tabulate(rows, headers=["check", "result", "finding"])


def data_check(args: argparse.Namespace) -> int:
    """Examine the DataFlow and print the report. Return 1 if it breaks a promise."""
    report = examine(_find_function(args.target), seconds=args.seconds, size=args.size, seed=args.seed)
    sys.stdout.write(f"{args.target}\n\n{_show_findings(report.findings)}\n")
    if report.speed is not None:
        sys.stdout.write(f"\n{_show_speed(report.speed)}\n")
    unwanted = [f for f in report.findings if f.status != OK] if args.strict else report.broken
    return 1 if unwanted else 0


def _show_speed(speed: PipelineSpeed) -> str:
    load = speed.load
    unit, units = ("batch", "batches") if speed.makes_batches else ("sample", "samples")
    rows = format_rows(make_rows(load.parts, load.num_steps, load.seconds), unit)
    return f"{rows}\n\nThe pipeline yields {speed.per_second:,.1f} {units} per second.\n{_describe_limit(speed)}"


def _describe_limit(speed: PipelineSpeed) -> str:
    if speed.load.cores_are_full:
        return describe_full_cores(speed.load)
    if speed.limit is None:
        return "Which stage limits the speed is not known: measure longer (--seconds), or with no other programs."
    limit = f"{describe_part(speed.limit)} limits the speed."
    return f"{limit} {describe_advice(speed.load, advise(speed.load))}"


def resume_check(args: argparse.Namespace) -> int:
    """Check the DataFlow and print the results. Return 1 if datapoints differ."""
    _find_function(args.target)
    check = check_resume(partial(_call, args.target), args.cuts, args.size, args.seconds, args.seed)
    sys.stdout.write(f"{args.target} (cuts: --seed {check.seed})\n\n")
    if check.stages:
        rows = [(stage.stage, stage.level, textwrap.fill(stage.reason, _REASON_WIDTH)) for stage in check.stages]
        sys.stdout.write(f"{tabulate(rows, headers=['stage', 'level', 'reason'])}\n\n")
    sys.stdout.write(f"{_show_findings(check.findings)}\n")
    unwanted = [f for f in check.findings if f.status == BROKEN or (args.strict and f.status != OK)]
    return 1 if unwanted else 0
