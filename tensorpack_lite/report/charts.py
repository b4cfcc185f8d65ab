"""Charts of scalars: static SVG, and the data with which a script can draw them again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from .curves import thin
from .html import Html, element
from .scales import Scale, choose_log, format_number, format_ticks, linear_scale, log_scale

NUM_COLORS = 7  # those that page.css defines
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 420, 50, 12, 10, 22
_HEIGHT, _STRIP_HEIGHT, _STRIP_BOTTOM = 214, 60, 6
_MAX_CROSSES = 40


class Series(NamedTuple):
    """
    One curve.

    Attributes:
        name: the scalar.
        label: its name in the legend.
        run: the number of its training, or group of training runs.
        color: the number of its color.
        is_dashed: whether the line is dashed, so that curves differ not only in their colors.
        steps, values: float64 [N]; of a group, the mean.
        deviation: the standard deviation, float64 [N], which is drawn as a band; None without a band.
        members: steps and values of the curves of which it is the mean.
    """

    name: str
    label: str
    run: int
    color: int
    is_dashed: bool
    steps: np.ndarray
    values: np.ndarray
    deviation: np.ndarray | None = None
    members: Sequence[Tuple[np.ndarray, np.ndarray]] = ()


class Mark(NamedTuple):
    """
    Something that happened at a step.

    Attributes:
        kind: "epoch", "resumption" or "event".
        step: when.
        text: what.
    """

    kind: str
    step: float
    text: str


@dataclass
class Chart:
    """
    A plot of one statistic.

    Attributes:
        title: its name.
        series: the curves.
        marks: what happened during training.
        x_range: the first and the last step of the axis.
        is_strip: whether it is a low one, to be shown below another chart.
        max_points: the number of points to which a curve is thinned.
    """

    title: str
    series: List[Series]
    marks: List[Mark] = field(default_factory=list)
    x_range: Tuple[float, float] = (0.0, 1.0)
    is_strip: bool = False
    max_points: int = 2000


def draw(chart: Chart, number: int) -> Tuple[Html, Dict[str, Any]]:
    """
    Draw a chart.

    Args:
        chart: the chart.
        number: identifies it on the page.

    Returns:
        The SVG element, and what the script needs to draw the curves again: the box of the plot, the scales and points.
    """
    shown_values = [values for curve in chart.series for values in (curve.values, *(y for _, y in curve.members))]
    everything = np.concatenate(shown_values)
    bands = [end for curve in chart.series if curve.deviation is not None for end in _band(curve)]
    linear, log = linear_scale(np.concatenate([everything, *bands]), pad=0.04), log_scale(everything)
    shown = log if log is not None and choose_log(everything) else linear
    x_scale = linear_scale(np.array(chart.x_range))
    box = _Box(_STRIP_HEIGHT if chart.is_strip else _HEIGHT, x_scale)
    thinned = [_thinned(curve, chart.max_points) for curve in chart.series]
    axes = [_draw_y_axis(scale, box, scale is shown) for scale in (linear, log) if scale is not None]
    description = _describe(chart)
    svg = element(
        "svg",
        element("title", description),
        *axes,
        _draw_x_axis(box, chart.is_strip),
        *_draw_marks(chart.marks, box),
        element("g", *(_draw_curve(curve, box, shown) for curve in thinned), class_="curves"),
        element("line", class_="cursor", y1=_TOP, y2=box.bottom, x1=-9, x2=-9),
        viewBox=f"0 0 {_WIDTH} {box.height}",
        role="img",
        aria_label=description,
        class_="chart strip" if chart.is_strip else "chart",
        id=f"chart{number}",
    )
    return svg, {
        "box": [_LEFT, _TOP, _WIDTH - _RIGHT, box.bottom],
        "x": [x_scale.low, x_scale.high],
        "linear": [linear.low, linear.high],
        "log": None if log is None else [log.low, log.high],
        "isLog": shown.is_log,
        "curves": [_points(curve) for curve in thinned],
    }


class _Box:
    """The place of the plot inside the picture."""

    def __init__(self, height: int, x_scale: Scale) -> None:
        self.height = height
        self.bottom = height - (_BOTTOM if height > _STRIP_HEIGHT else _STRIP_BOTTOM)
        self.x_scale = x_scale

    def x(self, steps: np.ndarray) -> np.ndarray:
        return _LEFT + self.x_scale.place(np.asarray(steps, np.float64)) * (_WIDTH - _RIGHT - _LEFT)

    def y(self, values: np.ndarray, scale: Scale) -> np.ndarray:
        return self.bottom - scale.place(np.asarray(values, np.float64)) * (self.bottom - _TOP)


def _band(curve: Series) -> Tuple[np.ndarray, np.ndarray]:
    """Return the ends of the band."""
    return curve.values - curve.deviation, curve.values + curve.deviation


def _thinned(curve: Series, limit: int) -> Series:
    kept = thin(curve.values, limit)
    members = [(steps[places], values[places]) for steps, values in curve.members for places in [thin(values, limit)]]
    deviation = None if curve.deviation is None else curve.deviation[kept]
    return curve._replace(steps=curve.steps[kept], values=curve.values[kept], deviation=deviation, members=members)


def _points(curve: Series) -> Dict[str, Any]:
    """Return the points of a curve as JSON values: differences of steps, and values with 5 digits."""
    found: Dict[str, Any] = {"label": curve.label, "run": curve.run, **_place(curve.steps, curve.values)}
    if curve.deviation is not None:
        found["deviation"] = _digits(curve.deviation)
        found["members"] = [_place(*member) for member in curve.members]
    return found


def _place(steps: np.ndarray, values: np.ndarray) -> Dict[str, Any]:
    whole = [int(step) for step in steps]
    return {"x": [step - before for step, before in zip(whole, [0, *whole])], "y": _digits(values)}


def _digits(values: np.ndarray) -> List[Any]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values.tolist()]


def _describe(chart: Chart) -> str:
    """Return the text for people who cannot see the chart."""
    words = []
    for curve in chart.series[:4]:
        finite = curve.values[np.isfinite(curve.values)]
        if len(finite):
            first, last, least, most = map(format_number, (*finite[[0, -1]], finite.min(), finite.max()))
            mean = f" (mean of {len(curve.members)})" if curve.members else ""
            words.append(f"{curve.label}{mean} from {first} to {last}, between {least} and {most}")
        else:
            words.append(f"{curve.label} is never finite")
    if len(chart.series) > len(words):
        words.append(f"and {len(chart.series) - len(words)} more")
    return f"{chart.title}: {'; '.join(words)}."


def _draw_y_axis(scale: Scale, box: _Box, is_shown: bool) -> Html:
    ticks = scale.ticks if box.height > _STRIP_HEIGHT else scale.ticks[:: max(1, len(scale.ticks) - 1)]
    drawn = []
    for label, y in zip(format_ticks(ticks), box.y(np.array(ticks), scale)):
        ends = {"x1": _LEFT, "x2": _WIDTH - _RIGHT, "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
        drawn.append(element("line", class_="grid", **ends))
        drawn.append(element("text", label, x=_LEFT - 6, y=f"{y + 3.5:.1f}", text_anchor="end"))
    return element("g", *drawn, class_=f"axis {'log' if scale.is_log else 'linear'}", hidden=not is_shown)


def _draw_x_axis(box: _Box, is_strip: bool) -> Html:
    drawn = [element("line", class_="base", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=box.bottom, y2=box.bottom)]
    if not is_strip:
        drawn.append(element("text", "step", x=_LEFT - 6, y=box.bottom + 15, text_anchor="end"))
    ticks = [] if is_strip else [tick for tick in box.x_scale.ticks if tick == int(tick)]
    for tick, x in zip(ticks, box.x(np.array(ticks))):
        anchor = "end" if x > _WIDTH - 30 else "start" if x < _LEFT + 10 else "middle"
        drawn.append(element("text", _short(tick), x=f"{x:.1f}", y=box.bottom + 15, text_anchor=anchor))
    return element("g", *drawn, class_="axis x")


def _draw_marks(marks: List[Mark], box: _Box) -> List[Html]:
    drawn = []
    for mark in marks:
        x = float(box.x(np.array(mark.step)))
        if _LEFT - 1 <= x <= _WIDTH - _RIGHT + 1:
            is_epoch = mark.kind == "epoch"
            title = None if is_epoch else element("title", mark.text)
            top = box.bottom - 4 if is_epoch else _TOP
            line = element("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=f"{top:.1f}", y2=f"{box.bottom:.1f}")
            flag = None if is_epoch else element("path", d=f"M{x:.1f} {_TOP - 1}l4 -6h-8z")
            drawn.append(element("g", title, line, flag, class_=f"mark {mark.kind}"))
    return drawn


def _draw_curve(curve: Series, box: _Box, scale: Scale) -> Html:
    xs, ys = box.x(curve.steps), box.y(curve.values, scale)
    kind = f"curve c{curve.color % NUM_COLORS}" + (" dashed" if curve.is_dashed else "")
    is_missing = ~np.isfinite(curve.values)
    crosses = "".join(f"M{x - 3:.1f} {_TOP}l6 6m0 -6l-6 6" for x in xs[is_missing][:_MAX_CROSSES])
    dot = None
    if np.isfinite(ys).sum() == 1:  # a path through one point is invisible
        place = np.nanargmax(ys)
        dot = element("circle", cx=f"{xs[place]:.1f}", cy=f"{ys[place]:.1f}", r=3.5)
    missing = element("path", d=crosses, class_="missing") if crosses else None
    around = []
    if curve.deviation is not None:
        around.append(element("path", d=_band_path(curve, xs, box, scale), class_="band"))
        paths = [_path(box.x(steps), box.y(values, scale)) for steps, values in curve.members]
        around += [element("path", d=path, class_="member") for path in paths]
    return element("g", element("path", d=_path(xs, ys)), dot, missing, *around, class_=kind)


def _band_path(curve: Series, xs: np.ndarray, box: _Box, scale: Scale) -> str:
    """Return the outline of the band; it is broken where it has no place. On a logarithmic scale, it ends at the bottom."""
    low, high = (box.y(end, scale) for end in _band(curve))
    low = np.where(np.isnan(low) & np.isfinite(high), box.bottom, low)
    words = []
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.isfinite(high).astype(int), [0]])))
    for first, end in zip(edges[::2], edges[1::2]):
        points = [*zip(xs[first:end], high[first:end]), *zip(xs[first:end][::-1], low[first:end][::-1])]
        words.append("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "z")
    return "".join(words)


def _path(xs: np.ndarray, ys: np.ndarray) -> str:
    """Return the path through the points that have a place; it is broken where one has none."""
    words, is_down = [], False
    for x, y in zip(xs.tolist(), ys.tolist()):
        has_place = y == y
        if has_place:
            words.append(f"{'L' if is_down else 'M'}{x:.1f} {y:.1f}")
        is_down = has_place
    return "".join(words)


def _short(step: float) -> str:
    """Return a step as on an axis: 500, 20k, 1.5M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(step) >= limit:
            return f"{step / (1e3 if unit == 'k' else limit):g}{unit}"
    return f"{step:,.0f}"
