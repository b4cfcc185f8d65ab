"""The command `resume-check`: cuts a DataFlow, restores it in new processes, and compares the datapoints."""

from __future__ import annotations

import argparse
import sys
import textwrap

from tabulate import tabulate

from ..diagnostics.data_check.examine import BROKEN, OK
from ..diagnostics.data_check.resume_check import check_resume
from .pipelines import Target, find_function, show_findings

_WIDTH = 80  # columns for the reasons


def run(args: argparse.Namespace) -> int:
    """Check the DataFlow and print the results. Return 1 if datapoints differ."""
    find_function(args.target)
    check = check_resume(Target(args.target), args.cuts, args.size, args.seconds, args.seed)
    sys.stdout.write(f"{args.target} (cuts: --seed {check.seed})\n\n")
    if check.stages:
        rows = [(one.stage, one.level, textwrap.fill(one.reason, _WIDTH)) for one in check.stages]
        sys.stdout.write(f"{tabulate(rows, headers=['stage', 'level', 'reason'])}\n\n")
    sys.stdout.write(f"{show_findings(check.findings)}\n")
    unwanted = [f for f in check.findings if f.status == BROKEN or (args.strict and f.status != OK)]
    return 1 if unwanted else 0
