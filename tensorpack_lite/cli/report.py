"""The command `report`: writes one HTML file with everything that is known about trainings."""

from __future__ import annotations

import argparse
import os
import sys

from ..report.page import FILENAME, write_report
from ..report.sections import Comparison
from ..utils.errors import DamagedFileError
from .diff import compare_runs

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Write the report."""
    path = args.output or (os.path.join(args.paths[0], FILENAME) if len(args.paths) == 1 else FILENAME)
    comparison = _compare(*args.paths) if len(args.paths) == 2 else None
    write_report(args.paths, path, comparison)
    sys.stdout.write(
        f"The report of {', '.join(args.paths)} is {path}, {os.path.getsize(path) / 1e6:.1f} MB.\n"
    )
    return 0


def _compare(first: str, second: str) -> Comparison:
    try:
        verdict, sections = compare_runs(first, second)
    except (OSError, DamagedFileError) as error:
        return Comparison(f"The trainings cannot be compared: {error}", [])
    shown = [(one.title, one.state, one.differences) for one in sections]
    return Comparison(f"A is {first}, B is {second}. {verdict}", shown)
