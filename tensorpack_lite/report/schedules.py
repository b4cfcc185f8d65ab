"""The section with the planned values of hyper-parameters."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np

from .charts import Chart, Series, draw
from .groups import Group, Groups
from .html import Html, element
from .plots import draw_legend, stairs

_MAX_PLOTS = 20
_MAX_POINTS = 1000


def draw_schedules(groups: Groups, charts: List[Dict[str, Any]]) -> Html | None:
    """
    Draw the values that schedules will set, with the values that the training runs have had so far.

    Args:
        groups: the training runs, of which each group has the same schedules.
        charts: the data of the page's charts, to which those of this section are added.

    Returns:
        The section; None if no manifest has planned values.
    """
    trainings = [group.trainings[0] for group in groups.members]
    known = [_dict(training.part("planned values").get("known")) for training in trainings]
    names = list(dict.fromkeys(name for plan in known for name in plan))[:_MAX_PLOTS]
    cards = []
    for name in names:
        series = list(_series(groups.members, name))
        if series:
            end = max(float(curve.steps[-1]) for curve in series)
            svg, data = draw(Chart(name, series, [], (0.0, end), max_points=_MAX_POINTS), len(charts))
            legend = draw_legend(series, len(charts), groups.members)
            charts.append(data)
            head = element("header", element("h3", name))
            cards.append(element("article", head, svg, legend, class_="card", data_names=name))
    unknown = [str(name) for training in trainings for name in _list(training.part("planned values").get("unknown"))]
    remark = None
    if unknown:
        advice = "tensorpack-lite schedule train.py shows what functions of the script compute."
        shown = ", ".join(dict.fromkeys(unknown))
        remark = element("p", f"Not known before training: {shown}. {advice}")
    return element("div", element("div", *cards, class_="cards"), remark) if cards or remark else None


def _series(groups: List[Group], name: str) -> Iterator[Series]:
    """Yield the planned values of each group, and those that its first training has used."""
    for group in groups:
        training, run = group.trainings[0], group.number
        where = f"{group.name}: " if len(groups) > 1 else ""
        if name in training.curves:
            points = stairs(training.steps[name], training.curves[name])
            yield Series(name, f"{where}used", run, run, False, *points)
        plan = training.part("planned values")
        if name in _dict(plan.get("known")):
            found = training.attempt(f"manifest.json: planned {name}", partial(_points, plan, name), None)
            if found is not None:
                yield Series(name, f"{where}planned", run, run, True, *found)


def _points(plan: Dict[str, Any], name: str) -> Tuple[np.ndarray, np.ndarray]:
    """Return the corners of the planned values: each stays until the next one is set."""
    steps = [int(step) for step in plan["known"][name]["steps"]]
    values = [float(value) for value in plan["known"][name]["values"]]
    if len(steps) != len(values) or not steps:
        raise ValueError(f"expected as many steps as values, got {len(steps)} and {len(values)}.")
    corners = np.stack([steps, [*steps[1:], int(plan["end"])]], 1).ravel()
    return corners.astype(np.float64), np.repeat(values, 2)


def _dict(value: object) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> List[Any]:
    return value if isinstance(value, list) else []
