"""`plot`: curves of one or several trainings, out of their `stats.json`."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from typing import Any

from ..utils.errors import DamagedFileError
from ..utils.json_rows import read_json_rows
from ..utils.optional import load_optional

__all__ = ["add_parser", "run"]

_COUNTERS = ("epoch_num", "global_step")
_MAX_COLUMNS = 3


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command's arguments."""
    text = "Draw the scalars of one or several trainings, each name in a picture of its own."
    parser: argparse.ArgumentParser = commands.add_parser("plot", help=text, description=text)
    parser.add_argument("paths", nargs="+", metavar="path", help="a stats.json, or the directory of one")
    parser.add_argument("--match", default="", help="only names in which this regular expression is found")
    parser.add_argument("-x", choices=_COUNTERS, default="global_step", help="what to draw against")
    parser.add_argument("-o", "--output", help="a .png file to write; without it, a window opens")
    return parser


def run(args: argparse.Namespace) -> int:
    """Read all curves, draw them, write or show the picture."""
    curves = {path: _read_curves(path, args.x, re.compile(args.match)) for path in args.paths}
    names = sorted({name for of_file in curves.values() for name in of_file})
    if not names:
        raise ValueError(f"no scalar to draw: no name has '{args.match}' in it, or nothing has '{args.x}'.")
    matplotlib = load_optional("matplotlib", "plot")
    if args.output:
        matplotlib.use("Agg")
    pyplot = load_optional("matplotlib.pyplot", "plot")
    figure = _draw(pyplot, curves, names, args.x)
    if args.output:
        figure.savefig(args.output)
        sys.stdout.write(f"{len(names)} scalars of {len(curves)} trainings written to {args.output}\n")
    else:
        pyplot.show()
    pyplot.close(figure)
    return 0


def _read_curves(path: str, x: str, pattern: Any) -> dict[str, list[tuple[float, float]]]:
    """Give `{name: [(x, y), ...]}` of one file."""
    if os.path.isdir(path):
        path = os.path.join(path, "stats.json")
    curves: dict[str, list[tuple[float, float]]] = {}
    for element in read_json_rows(path):
        for name, value in element.items():
            if x in element and name not in _COUNTERS and pattern.search(name):
                point = (element[x], value)
                if not all(isinstance(number, (int, float)) for number in point):
                    raise DamagedFileError(f"{path}: {name!r} has a point {point}, expected two numbers.")
                curves.setdefault(name, []).append(point)
    return curves


def _draw(pyplot: Any, curves: dict[str, Any], names: list[str], x: str) -> Any:
    num_columns = min(_MAX_COLUMNS, len(names))
    num_rows = math.ceil(len(names) / num_columns)
    figure, axes = pyplot.subplots(
        num_rows, num_columns, squeeze=False, figsize=(5 * num_columns, 3.5 * num_rows)
    )
    for index, axis in enumerate(axes.flat):
        if index >= len(names):
            axis.set_visible(False)
            continue
        for path, of_file in curves.items():
            points = of_file.get(names[index], [])
            axis.plot([p[0] for p in points], [p[1] for p in points], label=path)
        axis.set_title(names[index])
        axis.set_xlabel(x)
        if len(curves) > 1:
            axis.legend()
    figure.tight_layout()
    return figure
