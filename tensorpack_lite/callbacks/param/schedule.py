"""A hyper-parameter that follows a schedule."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Sequence

from ...utils import logger
from .hyperparam import HyperParam
from .setter import HyperParamSetter

__all__ = ["ScheduledHyperParamSetter"]


class ScheduledHyperParamSetter(HyperParamSetter):
    """
    Set a hyper-parameter at fixed points of training.

    `(e, v)` means: v from the end of epoch e on; e = 0 is before the first epoch. Between two points the value stays, or
    with `interp="linear"` moves along the line between them; before the first point and after the last nothing is set.

    When training begins in the middle of the schedule, the value that should hold there is computed. If the parameter has
    another one (they differ by more than 1e-5 of it), there is a warning, and the value is set if `set_at_beginning`.

    Args:
        param: a `HyperParam`, or the name of a variable.
        schedule: pairs (point, value), in any order; points are epochs, or steps if `step_based`.
        interp: None or "linear".
        step_based: points are values of `global_step` instead of `epoch_num`.
        set_at_beginning: whether to set the value that should hold when training begins.

    Raises:
        ValueError: the schedule is empty, or `interp` is something else.

    Attributes:
        schedule: the pairs, sorted, as (int, float).

    Runs at: before_train; trigger_epoch, or trigger_step if `step_based`.

    Example:
        >>> ScheduledHyperParamSetter("learning_rate", [(30, 1e-2), (60, 1e-3), (85, 1e-4)])

    tensorpack: same; there a scheduled 0 is not set when training begins, and values below 1e-8 count as equal.
    """

    def __init__(
        self,
        param: HyperParam | str,
        schedule: Sequence[tuple[int, float]],
        interp: str | None = None,
        step_based: bool = False,
        set_at_beginning: bool = True,
    ) -> None:
        self.schedule = sorted((int(point), float(value)) for point, value in schedule)
        if not self.schedule:
            raise ValueError("ScheduledHyperParamSetter: schedule is empty, wanted pairs (point, value).")
        if interp not in (None, "linear"):
            raise ValueError(f"ScheduledHyperParamSetter: interp is {interp!r}, wanted None or 'linear'.")
        self._points = [point for point, _ in self.schedule]
        self._interp = interp
        self._step_based = step_based
        self._set_at_beginning = set_at_beginning
        super().__init__(param)

    def _get_value_to_set(self) -> float | None:
        return self._value_to_set_at(self._current_point())

    def _current_point(self) -> int:
        return self.global_step if self._step_based else self.epoch_num

    def _value_to_set_at(self, point: int) -> float | None:
        """Give the value that is to be set exactly at this point, or None."""
        index = bisect_right(self._points, point) - 1
        if index >= 0 and self._points[index] == point:
            return self.schedule[index][1]
        is_between = 0 <= index < len(self._points) - 1
        return self._value_holding_at(point) if self._interp and is_between else None

    def _value_holding_at(self, point: int) -> float | None:
        """Give the value that the parameter should have at this point; None before the first one."""
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
        wanted = self._value_holding_at(self._current_point())
        if wanted is None:
            return
        actual = self.get_current_value()
        if math.isclose(float(actual), wanted, rel_tol=1e-5):
            return
        logger.warning(
            "%s: %s should be %.8g at %s %d, but is %.8g.",
            type(self).__name__,
            self.param.readable_name,
            wanted,
            "step" if self._step_based else "epoch",
            self._current_point(),
            actual,
        )
        if self._set_at_beginning:
            logger.info("%s: %s is set to %.8g.", type(self).__name__, self.param.readable_name, wanted)
            self.param.set_value(wanted)

    def _trigger_epoch(self) -> None:
        if not self._step_based:
            self.trigger()

    def _trigger_step(self) -> None:
        if self._step_based:
            self.trigger()

    def __str__(self) -> str:
        return f"{type(self).__name__}(schedule={self.schedule})"
