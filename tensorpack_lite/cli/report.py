"""The command `report`: writes one HTML file with everything that is known about trainings."""

from __future__ import annotations

import argparse
import os
import sys

from ..report.page import FILENAME, write_report
from ..report.sections import Comparison
from ..utils.errors import DamagedFileError
from .diff import read_run
from .run_diff import compare, verdict

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
        a, b = read_run(first), read_run(second)
    except (OSError, DamagedFileError) as error:
        return Comparison(f"The trainings cannot be compared: {error}", [])
    sections = compare(a, b)
    shown = []
    for one in sections:
        state = "differs" if one.differences else f"not known of {one.unknown}" if one.unknown else "same"
        shown.append((one.title, f"{state} ({one.note})" if one.note else state, one.differences))
    return Comparison(f"A is {first}, B is {second}. {verdict(sections, a, b)}", shown)
