"""Scales of the axes of a chart, and their ticks."""

from __future__ import annotations

import math
from typing import List, NamedTuple

import numpy as np

_MAX_TICKS = 6
_LOG_IF_ABOVE = 30  # times the median
_CONSTANT = 1e-4  # a smaller range, relative to the values, is not worth an axis
_MAX_DIGITS = 6


class Scale(NamedTuple):
    """
    A range of values on an axis.

    Attributes:
        low, high: the ends of the axis. On a logarithmic scale, their decimal logarithms.
        ticks: the values of the ticks.
        is_log: whether the scale is logarithmic.
    """

    low: float
    high: float
    ticks: List[float]
    is_log: bool

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return where values are on the axis: 0 at its low end, 1 at its high end; NaN for those that have no place."""
        with np.errstate(all="ignore"):
            positions = np.log10(np.where(values > 0, values, np.nan)) if self.is_log else values
            places = (positions - self.low) / (self.high - self.low)
        return np.where(np.isfinite(places), places, np.nan)


def linear_scale(values: np.ndarray, pad: float = 0.0) -> Scale:
    """
    Return a linear scale for values, of which those that are not finite are omitted.

    Args:
        values: float64 [N].
        pad: the part of the range to add at both ends.
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Scale(0.0, 1.0, [], is_log=False)
    low, high = max(float(finite.min()), -1e300), min(float(finite.max()), 1e300)
    if high - low <= _CONSTANT * max(abs(low), abs(high)):
        margin = abs(low) * 0.1 or 1.0
        low, high = low - margin, high + margin
    else:
        low, high = low - pad * (high - low), high + pad * (high - low)
    return Scale(low, high, _nice_ticks(low, high), is_log=False)


def log_scale(values: np.ndarray) -> Scale | None:
    """Return a logarithmic scale for the positive values; None if there are none."""
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    if not len(positive):
        return None
    low, high = math.log10(positive.min()), math.log10(positive.max())
    margin = 0.05 * (high - low) or 0.3
    low, high = low - margin, high + margin
    decades = list(range(math.ceil(low), math.floor(high) + 1))
    if len(decades) >= 2:
        step = -(-len(decades) // _MAX_TICKS)
        ticks = [10.0**decade for decade in decades[::step] if -300 < decade < 300]
    else:
        inside = [factor * 10.0 ** math.floor(low + k) for k in (0, 1) for factor in (1, 2, 3, 5, 7)]
        ticks = [tick for tick in inside if low <= math.log10(tick) <= high] if low > -300 else []
    return Scale(low, high, ticks, is_log=True)


def choose_log(values: np.ndarray) -> bool:
    """Return whether a linear scale would show most of the values as a flat line."""
    finite = values[np.isfinite(values)]
    return bool(len(finite)) and finite.min() > 0 and finite.max() > _LOG_IF_ABOVE * np.median(finite)


def format_number(value: float, digits: int = 4) -> str:
    """Return a number with a few digits: 0.9944, 12,000, 3e+08, nan."""
    if 1000 <= abs(value) < 1e7 and (value == int(value) or abs(value) >= 1e4):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def format_ticks(ticks: list[float]) -> list[str]:
    """Return the labels of ticks, with so many digits that all differ, up to 6."""
    for digits in range(4, _MAX_DIGITS):
        labels = [format_number(tick, digits) for tick in ticks]
        if len(set(labels)) == len(ticks):
            return labels
    return [format_number(tick, _MAX_DIGITS) for tick in ticks]


def _nice_ticks(low: float, high: float) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten, 4 to 6 if possible."""
    rough = (high - low) / 4
    if not math.isfinite(rough) or rough < 1e-300:
        return []
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((size * power for size in (1, 2, 2.5, 5, 10)), key=lambda size: abs(size - rough))
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]
