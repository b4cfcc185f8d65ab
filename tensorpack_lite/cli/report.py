"""The command `report`: one HTML page with everything that is known about training runs, in a file or in a browser that follows them."""

from __future__ import annotations

import argparse
import os
import sys

from tabulate import tabulate

from ..report.groups import group_trainings
from ..report.page import FILENAME, make_page, save_page
from ..report.reading import read_training
from ..report.sections import Comparison, table_of_groups
from ..report.serving import ReportServer
from ..utils.errors import DamagedFileError
from .diff import compare_runs


def report(args: argparse.Namespace) -> int:
    """
    Write the report, or serve it until Ctrl-C.

    Raises:
        ValueError: a file is named for a report that is served, or a port for one that is not.
    """
    if args.serve:
        return _serve(args)
    if args.port:
        raise ValueError("--port is for --serve (expected both, got a port only).")
    path = args.output or (os.path.join(args.paths[0], FILENAME) if len(args.paths) == 1 else FILENAME)
    trainings = [read_training(directory) for directory in args.paths]
    save_page(make_page(trainings, _compare(args.paths)), path)
    if len(trainings) > 1:
        head, rows = table_of_groups(group_trainings(trainings))
        sys.stdout.write(f"{tabulate(rows, head, disable_numparse=True)}\n\n")
    sys.stdout.write(f"The report of {', '.join(args.paths)} is {path}, {os.path.getsize(path) / 1e6:.1f} MB.\n")
    return 0


def _serve(args: argparse.Namespace) -> int:
    if args.output:
        raise ValueError("--serve writes no file (expected no -o).")

    def make() -> tuple[str, bool]:
        trainings = [read_training(path) for path in args.paths]
        return make_page(trainings, _compare(args.paths)), any(training.is_running for training in trainings)

    make()  # so that a directory that does not exist is an error now
    with ReportServer(make, args.port) as server:
        sys.stdout.write(f"The report of {', '.join(args.paths)} is at {server.url} until Ctrl-C.\n")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


def _compare(paths: list[str]) -> Comparison | None:
    """Return the differences of two training runs; None for another number of them."""
    if len(paths) != 2:
        return None
    first, second = paths
    try:
        verdict, sections = compare_runs(first, second)
    except (OSError, DamagedFileError) as error:
        return Comparison(f"The training runs cannot be compared: {error}", [])
    shown = [(section.title, section.state, section.differences) for section in sections]
    return Comparison(f"A is {first}, B is {second}. {verdict}", shown)
