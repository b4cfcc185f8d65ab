"""The command `plot`: plots curves of one or several training runs from their `stats.json`."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Pattern

from ..report.curves import collect_curves, group_by_statistic
from ..utils.errors import DamagedFileError
from ..utils.json_rows import read_json_rows
from ..utils.optional import load_optional
from .files import check_exists

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_COLUMNS = 3
_WITHOUT_WINDOWS = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}  # matplotlib's backends


def plot(args: argparse.Namespace) -> int:
    """Read all curves, plot them, and write or show the picture."""
    curves = {path: _read_curves(path, args.x, re.compile(args.match)) for path in args.paths}
    names = sorted({name for of_file in curves.values() for name in of_file})
    if not names:
        raise ValueError(f"nothing to plot: no scalar has '{args.match}' in its name and a value of '{args.x}'.")
    matplotlib = load_optional("matplotlib", "plot")
    if args.output:
        matplotlib.use("Agg")
    pyplot = load_optional("matplotlib.pyplot", "plot")
    if not args.output and pyplot.get_backend().lower() in _WITHOUT_WINDOWS:
        raise OSError("matplotlib cannot open a window here. Write a file instead: use -o curves.png")
    figure = _draw(pyplot, curves, names, args.x)
    if args.output:
        figure.savefig(args.output)
        runs = "1 training run" if len(curves) == 1 else f"{len(curves)} training runs"
        sys.stdout.write(f"{len(names)} scalars of {runs} written to {args.output}\n")
    else:
        pyplot.show()
    pyplot.close(figure)
    return 0


def _read_curves(path: str, x: str, pattern: Pattern[str]) -> dict[str, list[tuple[float, float]]]:
    """Return `{name: [(x, y), ...]}` of one training."""
    if os.path.isdir(path):
        path = os.path.join(path, "stats.json")
    curves, wrong = collect_curves(read_json_rows(check_exists(path)), x)
    for name, point in wrong.items():
        if pattern.search(name):
            raise DamagedFileError(f"{path}: {name!r} has a point {point}, expected two numbers.")
    return {name: points for name, points in curves.items() if pattern.search(name)}


def _draw(pyplot: ModuleType, curves: dict[str, Any], names: list[str], x: str) -> Figure:
    """Draw one plot per statistic: `error`, `train-error` and `validation_error` share the plot `error`."""
    plots = group_by_statistic(names)
    num_columns = min(_MAX_COLUMNS, len(plots))
    num_rows = math.ceil(len(plots) / num_columns)
    figure, axes = pyplot.subplots(num_rows, num_columns, squeeze=False, figsize=(5 * num_columns, 3.5 * num_rows))
    for axis in list(axes.flat)[len(plots) :]:
        axis.set_visible(False)
    for axis, (statistic, members) in zip(axes.flat, plots.items()):
        for path, of_file in curves.items():
            for name in members:
                if name in of_file:
                    label = name if len(curves) == 1 else path if len(members) == 1 else f"{path}: {name}"
                    axis.plot(*zip(*of_file[name]), label=label)
        axis.set_title(statistic)
        axis.set_xlabel(x)
        if len(axis.lines) > 1:
            axis.legend()
    figure.tight_layout()
    return figure
