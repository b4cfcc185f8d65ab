"""Curves of scalars: read from the rows of `stats.json`, grouped into plots, and thinned."""

from __future__ import annotations

import re
from typing import Any, Iterable

import numpy as np

COUNTERS = ("epoch_num", "global_step")
_PHASE = re.compile(r"^(train|training|val|validation|test)[-_/]")


def collect_curves(
    rows: Iterable[dict[str, Any]], x: str = "global_step"
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, tuple[Any, Any]]]:
    """
    Collect the curves of all scalars.

    Args:
        rows: the content of `stats.json`.
        x: the counter on the horizontal axis. Rows without it are omitted.

    Returns:
        `{name: [(x, y), ...]}`, and for each name with a point that does not consist of two numbers, the first such point.
    """
    curves: dict[str, list[tuple[float, float]]] = {}
    wrong: dict[str, tuple[Any, Any]] = {}
    for row in rows:
        place = row.get(x)
        if x not in row:
            continue
        for name, value in row.items():
            if name in COUNTERS:
                continue
            if isinstance(value, (int, float)) and isinstance(place, (int, float)):
                curves.setdefault(name, []).append((place, value))
            else:
                wrong.setdefault(name, (place, value))
    return curves, wrong


def group_by_statistic(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names into plots: `error`, `train-error` and `validation_error` share the plot `error`."""
    plots: dict[str, list[str]] = {}
    for name in names:
        plots.setdefault(statistic_of(name), []).append(name)
    return {members[0] if len(members) == 1 else statistic: members for statistic, members in plots.items()}


def statistic_of(name: str) -> str:
    """Return the name of a scalar without a prefix such as `train-` or `val_`."""
    return _PHASE.sub("", name)


def thin(values: np.ndarray, limit: int) -> np.ndarray:
    """
    Choose the points of a curve to draw, so that no extreme value is lost.

    The curve is cut into pieces of equal length. Of each, the least, the greatest and the first value that is not finite
    are kept; also the first and the last point of the curve.

    Args:
        values: float [N].
        limit: the maximum number of points, at least 5.

    Returns:
        The indices of the points, ascending: int [at most max(limit, 5)], or all N if they are at most `limit`.
    """
    if len(values) <= limit:
        return np.arange(len(values))
    length = -(-len(values) // max(1, (limit - 2) // 3))
    finite = np.isfinite(values)
    firsts = np.arange(0, len(values), length)
    chosen = [np.array([0, len(values) - 1])]
    for scores, candidates in ((-values, finite), (values, finite), (np.zeros(len(values)), ~finite)):
        padded = np.full(len(firsts) * length, -np.inf)
        padded[: len(values)] = np.where(candidates, scores, -np.inf)
        pieces = padded.reshape(-1, length)
        has_one = pieces.max(axis=1) > -np.inf
        chosen.append((firsts + pieces.argmax(axis=1))[has_one])
    return np.unique(np.concatenate(chosen))
