"""The section with the curves: which of them share a plot, in which order the plots come, and their legends."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np

from ..utils.direction import better_direction
from .charts import NUM_COLORS, Chart, Mark, Series, draw
from .curves import group_by_statistic
from .groups import Group, Groups, average
from .html import Html, element
from .reading import Training
from .scales import format_number
from .summary import better_directions, is_loss, is_of_the_machine, is_validation

_LEARNING_RATE = re.compile(r"learning_rate|(^|[^a-z])lr([^a-z]|$)", re.I)
_MAX_POINTS, _MIN_POINTS, _MAX_ALL_POINTS = 2000, 40, 120_000
_MAX_PLOTS = 300
_MAX_EPOCH_MARKS = 60
_MAX_MARKS = 30
_NOTHING = (np.zeros(0), np.zeros(0))
_MARKED_NOTES = ("nan", "spike", "hang")


def draw_curves(trainings: List[Training], groups: Groups) -> Tuple[Html, Dict[str, Any]]:
    """
    Draw the curves of all scalars of some training runs: of a group, the mean with a band, and the single ones in the background.

    Returns:
        The section, and the data for the script.
    """
    plots = _plots(list(dict.fromkeys(name for training in trainings for name in training.curves)))
    drawing = _Drawing(trainings, groups)
    cards = [drawing.card(*plot) for plot in plots[:_MAX_PLOTS]]
    epochs = [dict(_ends_of_epochs(group.trainings[0])) for group in groups.members]
    data = {
        "charts": drawing.data,
        "epochs": [{"steps": list(ends.values()), "numbers": list(ends)} for ends in epochs],
    }
    if not cards:
        return element("p", "No scalars were written.", class_="empty"), data
    left_out = len(plots) - len(cards)
    remark = element("p", f"{left_out} more plots are not shown.") if left_out > 0 else None
    return element("div", _controls(groups.members), element("div", *cards, class_="cards"), remark), data


class _Drawing:
    """The plots of a page, with what they have in common."""

    def __init__(self, trainings: List[Training], groups: Groups) -> None:
        self._groups = groups.members
        self._is_single = len(trainings) == 1
        steps = [steps for training in trainings for steps in training.steps.values()]
        low, high = (min(axis[0] for axis in steps), max(axis[-1] for axis in steps)) if steps else (0.0, 1.0)
        self._x_range = (0.0 if low < 0.2 * high else float(low), float(high))
        self._max_points = max(_MIN_POINTS, min(_MAX_POINTS, _MAX_ALL_POINTS // max(1, len(steps))))
        self._marks = [mark for training in trainings for mark in _marks(training, self._is_single)]
        self.data: List[Dict[str, Any]] = []

    def card(self, title: str, members: List[str], rates: List[str]) -> Html:
        """Return one plot, with the learning rates below it."""
        series = list(self._series(members))
        parts = [self._draw(Chart(title, series, self._marks, self._x_range, max_points=self._max_points))]
        number = len(self.data) - 1
        button = None
        if self.data[number]["log"] is not None:
            is_log = str(self.data[number]["isLog"]).lower()
            settings = {"data_log": number, "aria_pressed": is_log, "title": "Logarithmic scale"}
            button = element("button", "log", type="button", **settings)
        for rate in rates:
            lines = list(self._series([rate]))
            parts.append(element("p", rate, class_="strip-title"))
            parts.append(self._draw(Chart(rate, lines, [], self._x_range, True, self._max_points)))
        return element(
            "article",
            element("header", element("h3", title), button),
            *parts,
            draw_legend(series, number, self._groups),
            class_="card",
            data_names=" ".join([title, *members, *rates]),
        )

    def _draw(self, chart: Chart) -> Html:
        svg, data = draw(chart, len(self.data))
        self.data.append(data)
        return svg

    def _series(self, members: List[str]) -> Iterator[Series]:
        has_both = len({is_validation(name) for name in members}) == 2
        for group in self._groups:
            for number, name in enumerate(members):
                found = [training for training in group.trainings if name in training.curves]
                if not found:
                    continue
                label, color = (name, number) if self._is_single else (group.name, group.number)
                if not self._is_single and len(members) > 1:
                    label += f": {name}"
                is_dashed = is_validation(name) if has_both else color >= NUM_COLORS
                yield from _curves_of(found, name, Series(name, label, group.number, color, is_dashed, *_NOTHING))


def _curves_of(trainings: List[Training], name: str, series: Series) -> Iterator[Series]:
    """Yield the mean of a scalar over training runs; if they have no step in common, each of its curves."""
    is_planned = name in _planned(trainings[0])
    curves = [(training.steps[name], training.curves[name]) for training in trainings]
    drawn = [stairs(*curve) if is_planned else curve for curve in curves]
    mean = average(curves)
    if mean is None:
        for training, curve in zip(trainings, drawn):
            label = series.label if len(trainings) == 1 else f"{series.label}, {training.name}"
            yield series._replace(label=label, steps=curve[0], values=curve[1])
        return
    steps, values, deviation = mean
    if is_planned:
        deviation = stairs(steps, deviation)[1]
        steps, values = stairs(steps, values)
    yield series._replace(steps=steps, values=values, deviation=deviation, members=drawn)


def _planned(training: Training) -> Any:
    """Return the hyper-parameters that schedules set, by name; anything if the manifest is damaged."""
    known = training.part("planned values").get("known")
    return known if isinstance(known, dict) else {}


def _plots(names: List[str]) -> List[Tuple[str, List[str], List[str]]]:
    """Return the title, the scalars, and the learning rates of each plot, the most important ones first."""
    groups = group_by_statistic(names)
    has_validation = {title: any(map(is_validation, members)) for title, members in groups.items()}
    losses = [title for title, members in groups.items() if any(map(is_loss, members))]
    first_loss = max(losses, key=has_validation.__getitem__, default=None)
    rates = [name for name in names if losses and _LEARNING_RATE.search(name)]

    def rank(title: str) -> Tuple[bool, bool, bool, bool]:
        is_result = any(map(better_direction, groups[title]))
        return title != first_loss, is_of_the_machine(title), not is_result, not has_validation[title]

    return [
        (title, sorted(groups[title], key=is_validation), rates if title == first_loss else [])
        for title in sorted(groups, key=rank)
        if not set(groups[title]) <= set(rates)
    ]


def stairs(steps: np.ndarray, values: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Return the corners of a hyper-parameter: each value is reported at the last step in which it was used."""
    corners = np.stack([[steps[0], *steps[:-1]], steps], 1).ravel()
    return corners, np.repeat(values, 2)


def draw_legend(series: List[Series], number: int, groups: List[Group]) -> Html:
    """Return the table below a chart: the last, least and greatest value of each curve, and a button that hides the curve."""
    rows = []
    for k, curve in enumerate(series):
        finite = curve.values[np.isfinite(curve.values)]
        kind = f"swatch c{curve.color % NUM_COLORS}" + (" dashed" if curve.is_dashed else "")
        settings = {"type": "button", "data_curve": f"{number}/{k}", "aria_pressed": "true"}
        label = element("button", element("i", class_=kind), curve.label, **settings)
        cells = [format_number(curve.values[-1], 3), "-", "-"]
        if curve.deviation is not None:
            cells[0] += f" \u00b1 {format_number(curve.deviation[-1], 2)}"
        if len(finite):
            cells[1:] = [format_number(value, 3) for value in (finite.min(), finite.max())]
        better = better_directions(groups[curve.run].trainings[0]).get(curve.name, 0)
        if better:
            place = 1 if better < 0 else 2
            cells[place] = element("b", cells[place])
        rows.append(element("tr", element("th", label, scope="row"), *(element("td", cell) for cell in cells)))
    head = [element("th", title, scope="col") for title in ("", "last", "min", "max")]
    return element("table", element("thead", element("tr", *head)), element("tbody", *rows), class_="legend")


def _controls(groups: List[Group]) -> Html:
    runs = []
    for group in groups:
        swatch = element("i", class_=f"swatch c{group.number % NUM_COLORS}")
        runs.append(element("button", swatch, group.name, type="button", data_run=group.number, aria_pressed="true"))
    slider = element("input", type="range", id="smoothing", min=0, max=0.98, step=0.02, value=0)
    scales = [element("button", scale, type="button", data_scale=scale) for scale in ("linear", "log")]
    return element(
        "div",
        element("span", *runs, class_="runs") if len(runs) > 1 else None,
        element("input", type="search", id="filter", placeholder="Filter plots", aria_label="Filter plots"),
        element("label", "Smoothing ", slider, element("output", "off")),
        element("span", "Scale ", *scales),
        id="controls",
    )


def _marks(training: Training, with_epochs: bool) -> List[Mark]:
    where = "" if with_epochs else f"{training.name}: "
    ends = _ends_of_epochs(training) if with_epochs else []
    stride = -(-len(ends) // _MAX_EPOCH_MARKS) or 1
    marks = [Mark("epoch", step, f"end of epoch {epoch}") for epoch, step in ends[::stride]]
    resumptions = training.manifest.get("resumptions")
    for place in resumptions[:_MAX_MARKS] if isinstance(resumptions, list) else []:
        step = place.get("global_step") if isinstance(place, dict) else None
        if isinstance(step, (int, float)):
            marks.append(Mark("resumption", step, f"{where}resumed at step {step:,} ({place.get('when')})"))
    for note in [note for note in training.notes if note["kind"] in _MARKED_NOTES][:_MAX_MARKS]:
        if isinstance(note.get("step"), (int, float)):
            marks.append(Mark("event", note["step"], f"{where}{note['text']}"))
    return marks


def _ends_of_epochs(training: Training) -> List[Tuple[int, int]]:
    """Return the number and the last step of each epoch, at most about 2000 of them."""
    ends: Dict[int, int] = {}
    for row in training.rows:
        epoch, step = row.get("epoch_num"), row.get("global_step")
        if isinstance(epoch, int) and isinstance(step, int):
            ends[epoch] = step
    return sorted(ends.items())[:: max(1, len(ends) // _MAX_POINTS)]
