"""Callback that sets a hyper-parameter by a schedule."""

from __future__ import annotations

from bisect import bisect_right
from collections import abc
from typing import Any, Sequence

from ...utils import logger
from ...utils.checks import check_choice, check_type
from .hyperparam import HyperParam
from .setter import PlannedHyperParamSetter, is_close


class ScheduledHyperParamSetter(PlannedHyperParamSetter):
    """
    Callback that sets a hyper-parameter at fixed points of training.

    A pair `(e, v)` sets the value v at the end of epoch e; e = 0 is before the first epoch. Between two
    points, the value stays constant, or is interpolated with `interp="linear"`. Before the first point and
    after the last, nothing is set.

    When training starts in the middle of the schedule, the scheduled value at that point is computed. If the
    parameter differs from it by more than 1e-5 (relative), a warning is logged, and the value is set if
    `set_at_beginning` is true.

    Args:
        param: a `HyperParam`, or the name of a variable.
        schedule: pairs (point, value), in any order; points are epochs, or steps if `step_based`.
        interp: None or "linear".
        step_based: points are values of `global_step` instead of `epoch_num`.
        set_at_beginning: whether to set the scheduled value when training starts.

    Raises:
        TypeError: the schedule does not consist of pairs of numbers.
        ValueError: the schedule is empty, or `interp` is unknown.

    Attributes:
        schedule: the pairs, sorted, as (int, float).

    Runs at: before_train; trigger_epoch, or trigger_step if `step_based`.

    Example:
        >>> ScheduledHyperParamSetter("learning_rate", [(30, 1e-2), (60, 1e-3), (85, 1e-4)])
    """

    def __init__(
        self,
        param: HyperParam | str,
        schedule: Sequence[tuple[int, float]],
        interp: str | None = None,
        step_based: bool = False,
        set_at_beginning: bool = True,
    ) -> None:
        expected = "pairs (point, value) of numbers"
        pairs = list(check_type("ScheduledHyperParamSetter: schedule", schedule, abc.Iterable, expected))
        try:
            self.schedule = sorted((int(point), float(value)) for point, value in pairs)
        except (TypeError, ValueError) as error:
            raise TypeError(f"ScheduledHyperParamSetter: schedule: expected {expected}, got {pairs!r}.") from error
        if not self.schedule:
            raise ValueError("ScheduledHyperParamSetter: the schedule is empty (expected pairs (point, value)).")
        self._points = [point for point, _ in self.schedule]
        self._interp = check_choice("ScheduledHyperParamSetter: interp", interp, (None, "linear"))
        self._set_at_beginning = set_at_beginning
        super().__init__(param, step_based)

    def value_at(self, point: int, current: Any) -> float | None:
        """Return the scheduled value, or None where nothing is set."""
        is_between = self._points[0] < point < self._points[-1]
        is_due = point in self._points or (self._interp is not None and is_between)
        return self._value_at(point) if is_due else None

    def preview(self, point: int, initial: object) -> object:
        """Return the scheduled value; before the first point, the initial one."""
        value = self._value_at(point)
        return initial if value is None else value

    def _get_value_to_set(self) -> float | None:
        self._point = self._current_point()
        return self.value_at(self._point, None)  # without reading the parameter

    def _value_at(self, point: int) -> float | None:
        """Return the scheduled value at this point; None before the first point."""
        index = bisect_right(self._points, point) - 1
        if index < 0:
            return None
        start, value = self.schedule[index]
        if self._interp is None or index == len(self.schedule) - 1:
            return value
        end, next_value = self.schedule[index + 1]
        return value + (next_value - value) * (point - start) / (end - start)

    def _before_train(self) -> None:
        super()._before_train()
        loop, point = self.trainer.loop, self._current_point()
        if not loop.is_resumed or (loop.has_triggers_left and not self._may_be_due(point)):
            self._set_planned(point)

    def _set_planned(self, point: int) -> None:
        expected = self._value_at(point)
        if expected is None:
            return
        self._point, actual = point, self.get_current_value()
        if is_close(actual, expected):
            return
        who, name = type(self).__name__, self.param.readable_name
        place = f"{'step' if self.step_based else 'epoch'} {point}"
        logger.warning(f"{who}: {name} should be {expected:.8g} at {place}, but is {actual:.8g}.")
        if self._set_at_beginning:
            logger.info(f"{who}: setting {name} to {expected:.8g}.")
            self.param.set_value(expected)

    def _may_be_due(self, point: int) -> bool:
        """Return whether the value is that of before the current point, whose trigger is still to come in a resumed training."""
        if self.value_at(point, None) is None:
            return False
        previous = self._value_at(point - 1)
        return previous is None or is_close(self.get_current_value(), previous)

    def __str__(self) -> str:
        return f"{type(self).__name__}(schedule={self.schedule})"
