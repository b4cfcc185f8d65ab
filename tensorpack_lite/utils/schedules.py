"""
Schedules: functions that compute a hyper-parameter, such as the learning rate, from the progress of training.

Each function here returns a schedule, a function `f(point, current=None)` for `HyperParamSetterWithFunc`. A point is the
number of epochs that are done, or of steps with `step_based=True`; lengths are in the same unit. The value at point 0 is
that of the first epoch or step. A schedule depends on nothing else, so a resumed training continues with the right value. A
negative point raises ValueError.

Warm-up: at the points before `warmup`, which may be a fraction, the value is v * min(1, (point + 1) / warmup), where v is the
value without warm-up at its end. The rest of the schedule follows.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Callable, Sequence

from .checks import check_at_least, check_between, check_positive

__all__ = [
    "Schedule", "constant", "cosine", "cosine_restarts", "inverse_sqrt", "is_schedule", "one_cycle",
    "polynomial", "step",
]  # fmt: skip

Schedule = Callable[..., float]
"""A function of the point and, which is ignored, the current value."""


def constant(value: float, warmup: float = 0) -> Schedule:
    """
    Return a schedule that stays at a value.

    Args:
        value: the value.
        warmup: the length of the warm-up.

    Raises:
        ValueError: `warmup` is negative.

    Example:
        >>> HyperParamSetterWithFunc("learning_rate", schedules.constant(0.1, warmup=500), step_based=True)
    """
    return _warm_up("schedules.constant", value, warmup, lambda done: value)


def step(value: float, boundaries: Sequence[float], factor: float = 0.1, warmup: float = 0) -> Schedule:
    """
    Return a schedule that multiplies the value by a factor at each boundary: value * factor ** n after n boundaries.

    Args:
        value: the value before the first boundary.
        boundaries: points, counted from the beginning of training, the warm-up included.
        factor: the factor.
        warmup: the length of the warm-up.

    Raises:
        ValueError: `warmup` is negative.

    Example:
        >>> HyperParamSetterWithFunc("learning_rate", schedules.step(0.1, [30, 60, 80]))
    """
    points = sorted(boundaries)
    return _warm_up("schedules.step", value, warmup, lambda done: value * factor ** bisect_right(points, done + warmup))


def cosine(value: float, length: float, end: float = 0.0, warmup: float = 0) -> Schedule:
    """
    Return a schedule that falls as half a cosine: end + (value - end) * (1 + cos(pi * p)) / 2, with p from 0 to 1.

    Args:
        value: the value after the warm-up.
        length: the length of the training, the warm-up included. The value stays at `end` afterwards.
        end: the value at `length`.
        warmup: the length of the warm-up.

    Raises:
        ValueError: `warmup` is negative, or not shorter than `length`.

    Example:
        >>> HyperParamSetterWithFunc("learning_rate", schedules.cosine(0.1, 90, warmup=5))

    Source: Loshchilov, Hutter 2016, "SGDR: Stochastic Gradient Descent with Warm Restarts", equation 5.
    """
    span = _span("schedules.cosine", length, warmup)
    return _warm_up("schedules.cosine", value, warmup, lambda done: _half_cosine(value, end, min(1.0, done / span)))


def cosine_restarts(value: float, length: float, growth: float = 1.0, end: float = 0.0, warmup: float = 0) -> Schedule:
    """
    Return a schedule that repeats the fall of `cosine`, each time `growth` times as long as before.

    Args:
        value: the value after the warm-up and after each restart.
        length: the length of the first fall, without the warm-up.
        growth: the factor; at least 1.
        end: the value before each restart.
        warmup: the length of the warm-up.

    Raises:
        ValueError: `length` is not positive, `growth` is less than 1, or `warmup` is negative.

    Example:
        >>> HyperParamSetterWithFunc("learning_rate", schedules.cosine_restarts(0.1, 10, growth=2))

    Source: Loshchilov, Hutter 2016, "SGDR: Stochastic Gradient Descent with Warm Restarts".
    """
    check_positive("schedules.cosine_restarts: length", length)
    check_at_least("schedules.cosine_restarts: growth", growth, 1)

    def decayed(done: float) -> float:
        period = float(length)
        while done >= period:
            done -= period
            period *= growth
        return _half_cosine(value, end, done / period)

    return _warm_up("schedules.cosine_restarts", value, warmup, decayed)


def polynomial(value: float, length: float, end: float = 0.0, power: float = 1.0, warmup: float = 0) -> Schedule:
    """
    Return a schedule that falls as a polynomial: end + (value - end) * (1 - p) ** power, with p from 0 to 1.

    Args:
        value: the value after the warm-up.
        length: the length of the training, the warm-up included. The value stays at `end` afterwards.
        end: the value at `length`.
        power: 1 is a line.
        warmup: the length of the warm-up.

    Raises:
        ValueError: `power` is not positive; `warmup` is negative, or not shorter than `length`.

    Example:
        >>> HyperParamSetterWithFunc("learning_rate", schedules.polynomial(0.1, 90, power=2))
    """
    check_positive("schedules.polynomial: power", power)
    span = _span("schedules.polynomial", length, warmup)
    return _warm_up(
        "schedules.polynomial",
        value,
        warmup,
        lambda done: end + (value - end) * (1 - min(1.0, done / span)) ** power,
    )


def one_cycle(
    highest: float, length: float, rise: float = 0.3, start: float | None = None, end: float | None = None
) -> Schedule:
    """
    Return a schedule that rises to its highest value and then falls, both as half a cosine.

    Args:
        highest: the value at `rise * length`.
        length: the length of the training. The value stays at `end` afterwards.
        rise: the fraction of the training during which the value rises; 0 to 1.
        start: the value at point 0; None means `highest / 25`.
        end: the value at `length`; None means `start / 10000`.

    Raises:
        ValueError: `length` is not positive, or `rise` is out of range.

    Example:
        >>> rate = schedules.one_cycle(0.1, 5000)
        >>> momentum = schedules.one_cycle(0.85, 5000, start=0.95, end=0.95)

    Source: Smith, Topin 2017, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates", with the
    half cosines of fastai and PyTorch.
    """
    check_positive("schedules.one_cycle: length", length)
    peak = check_between("schedules.one_cycle: rise", rise, 0, 1) * length
    first = highest / 25 if start is None else start
    last = first / 1e4 if end is None else end

    def value_at(point: float, current: object = None) -> float:
        check_at_least("schedules.one_cycle: point", point, 0)
        if point < peak:
            return _half_cosine(first, highest, point / peak)
        return _half_cosine(highest, last, min(1.0, (point - peak) / max(length - peak, 1e-12)))

    return value_at


def inverse_sqrt(value: float, warmup: float) -> Schedule:
    """
    Return a schedule that falls with the square root: value * sqrt(warmup / (point + 1)) after the warm-up.

    Args:
        value: the highest value, at the end of the warm-up.
        warmup: the length of the warm-up; > 0.

    Raises:
        ValueError: `warmup` is not positive.

    Example:
        >>> schedules.inverse_sqrt(512**-0.5 * 4000**-0.5, 4000)       # that of the paper, with step_based=True

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 3.
    """
    check_positive("schedules.inverse_sqrt: warmup", warmup)
    return _warm_up(
        "schedules.inverse_sqrt",
        value,
        warmup,
        lambda done: value * math.sqrt(warmup / (done + warmup + 1)),
    )


def is_schedule(func: object) -> bool:
    """Return whether a function is a schedule of this module, which may be called at any time because nothing else happens."""
    return getattr(func, "__module__", None) == __name__


def _warm_up(who: str, value: float, warmup: float, schedule: Callable[[float], float]) -> Schedule:
    """Return a schedule with a warm-up to `value`, followed by a function of the points since its end."""
    check_at_least(f"{who}: warmup", warmup, 0)

    def value_at(point: float, current: object = None) -> float:
        check_at_least(f"{who}: point", point, 0)
        return value * min(1.0, (point + 1) / warmup) if point < warmup else schedule(point - warmup)

    return value_at


def _span(who: str, length: float, warmup: float) -> float:
    """Return the length without the warm-up."""
    if not length > warmup:
        raise ValueError(
            f"{who}: length is too small (expected more than warmup={warmup}, got {length}). It includes the warm-up."
        )
    return length - warmup


def _half_cosine(first: float, last: float, progress: float) -> float:
    return last + (first - last) * (1 + math.cos(math.pi * progress)) / 2
