"""Callback that changes a hyper-parameter when a statistic stops improving."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable

from ...utils.checks import check_at_least
from ...utils.direction import check_direction
from ..statistic_reader import StatisticReader
from .hyperparam import HyperParam
from .setter import HyperParamSetter


class StatMonitorParamSetter(HyperParamSetter):
    """
    Callback that changes a hyper-parameter when a statistic has not decreased enough for a while.

    Each trigger adds the newest value of the statistic to a window of the last `last_k` values. Let f be the
    first value in the full window. The parameter changes to `value_func(current)` if min(window) >= f -
    threshold, or with `reverse`, if max(window) <= f + threshold. Then the window is cleared, so the next
    change needs at least `last_k` new values.

    Args:
        param: a `HyperParam`, or the name of a variable.
        stat_name: a scalar of `trainer.monitors`.
        value_func: function that returns the new value for the current value.
        threshold: the least improvement within the window, in units of the statistic.
        last_k: size of the window, >= 1.
        reverse: whether the statistic should increase. None means False.
        strict: raise a KeyError, which ends training, at the end of the first epoch in which this callback is triggered, if
            the statistic has not been reported, e.g. because it is misspelt. A callback that may report it later, such as one
            inside a PeriodicTrigger, delays the error. False logs a warning at each trigger.

    Raises:
        TypeError: `stat_name` is not a string.
        ValueError: `last_k` is not positive; `reverse` was not passed, but by its name, the statistic should increase.
        KeyError: at the end of an epoch, see `strict`.

    Runs at: trigger, never before training. A trigger without a new value of the statistic only logs a warning. A
    checkpoint keeps the window.

    Example:
        >>> StatMonitorParamSetter("learning_rate", "val-error", lambda lr: lr * 0.2, threshold=0, last_k=5)
    """

    _enable_before_train = False

    def __init__(
        self,
        param: HyperParam | str,
        stat_name: str,
        value_func: Callable[[Any], Any],
        threshold: float,
        last_k: int,
        reverse: bool | None = None,
        *,
        strict: bool = True,
    ) -> None:
        super().__init__(param)
        self.stat_name = stat_name
        self.value_func = value_func
        self.threshold = threshold
        self.last_k = check_at_least("StatMonitorParamSetter: last_k", last_k, 1)
        self._window: deque[float] = deque(maxlen=last_k)
        self._reader = StatisticReader(self, stat_name, strict)
        if reverse is None:
            check_direction("StatMonitorParamSetter", stat_name, -1, "Pass reverse=True or reverse=False.")
        self.reverse = bool(reverse)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the window, the step of its last value, and the parameter's value if no variable holds it."""
        window = {"window": list(self._window), "last_step": self._reader.last_step}
        return {**(super().state_dict() or {}), **window}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned. A window that is now smaller keeps the newest values."""
        super().load_state_dict(state)
        self._window = deque(state["window"], maxlen=self.last_k)
        self._reader.last_step = state["last_step"]

    @property
    def state_name(self) -> str:
        """The name of the class, the parameter and the statistic."""
        return f"{self}({self.param.readable_name}, {self.stat_name})"

    def _get_value_to_set(self) -> Any:
        newest = self._reader.read_new()
        if newest is None:
            return None
        self._window.append(newest[1])
        if len(self._window) < self.last_k or self._has_improved():
            return None
        self._window.clear()
        return self.value_func(self.get_current_value())

    def _has_improved(self) -> bool:
        first = self._window[0]
        if self.reverse:
            return max(self._window) > first + self.threshold
        return min(self._window) < first - self.threshold
