"""A hyper-parameter that changes when a statistic stops getting better."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable

from ...utils import logger
from .hyperparam import HyperParam
from .setter import HyperParamSetter

__all__ = ["StatMonitorParamSetter"]


class StatMonitorParamSetter(HyperParamSetter):
    """
    Change a hyper-parameter when a statistic has not decreased enough for a while.

    Each trigger takes the newest value of the statistic. Of the last `last_k` of them, let f be the first: the parameter
    changes to `value_func(current)` when min(window) >= f - threshold, or with `reverse`, when
    max(window) <= f + threshold. Then the window is emptied, so the next change is at least `last_k` values away.

    Args:
        param: a `HyperParam`, or the name of a variable.
        stat_name: a scalar of `trainer.monitors`.
        value_func: from the current value to the new one.
        threshold: how much must be gained within the window, in the units of the statistic.
        last_k: the size of the window, >= 1.
        reverse: the statistic is one that should increase.

    Raises:
        ValueError: `last_k` is not positive.

    Runs at: trigger; never before training. A trigger without a new value of the statistic warns and does nothing.

    Example:
        >>> StatMonitorParamSetter("learning_rate", "val-error", lambda lr: lr * 0.2, threshold=0, last_k=5)

    tensorpack: same.
    """

    _enable_before_train = False

    def __init__(
        self,
        param: HyperParam | str,
        stat_name: str,
        value_func: Callable[[Any], Any],
        threshold: float,
        last_k: int,
        reverse: bool = False,
    ) -> None:
        super().__init__(param)
        if last_k < 1:
            raise ValueError(f"StatMonitorParamSetter: last_k is {last_k}, wanted at least 1.")
        self.stat_name = stat_name
        self.value_func = value_func
        self.threshold = threshold
        self.last_k = last_k
        self.reverse = reverse
        self._window: deque[float] = deque(maxlen=last_k)
        self._last_step = -1

    def _get_value_to_set(self) -> Any:
        history = self.trainer.monitors.get_history(self.stat_name)
        if not history:
            logger.warning("StatMonitorParamSetter: nobody has reported '%s' yet.", self.stat_name)
            return None
        step, value = history[-1]
        if step == self._last_step:
            logger.warning("StatMonitorParamSetter: '%s' has no value since step %d.", self.stat_name, step)
            return None
        self._last_step = step
        self._window.append(value)
        if len(self._window) < self.last_k or self._has_improved():
            return None
        self._window.clear()
        return self.value_func(self.get_current_value())

    def _has_improved(self) -> bool:
        first = self._window[0]
        if self.reverse:
            return max(self._window) > first + self.threshold
        return min(self._window) < first - self.threshold
