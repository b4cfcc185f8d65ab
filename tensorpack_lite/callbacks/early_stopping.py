"""Early stopping."""

from __future__ import annotations

from typing import Any

from ..loop.callback import Callback
from ..loop.state import StopTraining
from ..utils import logger
from ..utils.checks import check_at_least
from ..utils.direction import choose_mode
from .statistic_reader import StatisticReader


class EarlyStopping(Callback):
    """
    Callback that stops training when a statistic has not improved for a while, like `EarlyStopping` in Keras and PyTorch
    Lightning.

    Each trigger reads the newest value of the statistic. A value is an improvement if it is better than the
    best value so far by more than `min_delta`; NaN never is. After `patience` values in a row without an
    improvement, training stops with `StopTraining` right before the next epoch or after the next step. So the
    other callbacks of this trigger, for instance those that save checkpoints and statistics, still run.

    Args:
        monitor_stat: a scalar of `trainer.monitors`.
        mode: "min" if smaller is better, "max" if larger is better. None means that the name of the statistic decides, as in the
            table in the log.
        patience: number of values without an improvement, >= 1.
        min_delta: the least improvement that counts, in units of the statistic, >= 0.
        strict: raise a KeyError, which ends training, at the end of the first epoch in which this callback is triggered, if
            the statistic has not been reported, e.g. because it is misspelt. A callback that may report it later, such as one
            inside a PeriodicTrigger, delays the error. False logs a warning at each trigger.

    Raises:
        TypeError: `monitor_stat` is not a string.
        ValueError: an argument is out of range; `mode` is None, and the name does not tell.
        KeyError: at the end of an epoch, see `strict`.

    Attributes:
        best: `(step, value)` of the last improvement, or None.
        num_bad: number of values since then.

    Runs at: before_epoch, trigger_step, trigger. In every process of a distributed training; the chief's statistic counts. Put
    it after the callback that reports the statistic. A trigger without a new value logs a warning and does not count.

    Example:
        >>> EarlyStopping("validation_error", patience=5)
        >>> EarlyStopping("validation_accuracy", patience=3, min_delta=0.001)

    Note: a checkpoint keeps `best` and `num_bad`. To keep the best weights, use `MinSaver` or `TopKSaver`.
    """

    _chief_only = False

    def __init__(
        self,
        monitor_stat: str,
        mode: str | None = None,
        patience: int = 3,
        min_delta: float = 0.0,
        *,
        strict: bool = True,
    ) -> None:
        self._reader = StatisticReader(self, monitor_stat, strict)
        self.monitor_stat = monitor_stat
        self.mode = choose_mode("EarlyStopping", monitor_stat, mode)
        self.patience = check_at_least("EarlyStopping: patience", patience, 1)
        self.min_delta = check_at_least("EarlyStopping: min_delta", min_delta, 0)
        self.best: tuple[int, float] | None = None
        self.num_bad = 0

    def _before_train(self) -> None:
        self.best = None
        self.num_bad = 0
        self._reader.last_step = -1

    def _before_epoch(self) -> None:
        if self.trainer.loop.starting_step == 0:  # else the epoch had begun when the checkpoint was saved
            self._stop_if_due()

    def _trigger_step(self) -> None:
        self._stop_if_due()

    def _trigger(self) -> None:
        newest = self._reader.read_new()
        if newest is None:
            return
        step, value = newest
        if self._is_improvement(value):
            self.best = (step, value)
            self.num_bad = 0
            return
        self.num_bad += 1
        count = f"{self.num_bad} of {self.patience}"
        logger.info(f"EarlyStopping: '{self.monitor_stat}' = {value:.5g} is not an improvement ({count}).")

    def state_dict(self) -> dict[str, Any] | None:
        """Return `best`, `num_bad` and the step of the last value."""
        best = None if self.best is None else list(self.best)
        return {"best": best, "num_bad": self.num_bad, "last_step": self._reader.last_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `best`, `num_bad` and the step of the last value."""
        self.best = None if state["best"] is None else tuple(state["best"])
        self.num_bad = state["num_bad"]
        self._reader.last_step = state["last_step"]

    @property
    def state_name(self) -> str:
        """The name of the class, and the statistic."""
        return f"{self}({self.monitor_stat})"

    def _is_improvement(self, value: float) -> bool:
        if self.best is None:
            return value == value  # not NaN
        gain = self.best[1] - value if self.mode == "min" else value - self.best[1]
        return gain > self.min_delta

    def _stop_if_due(self) -> None:
        if self.num_bad < self.patience:
            return
        best = "all were NaN" if self.best is None else f"best {self.best[1]:.5g} at step {self.best[0]}"
        raise StopTraining(
            f"EarlyStopping: '{self.monitor_stat}' has not improved in its last {self.num_bad} values ({best})."
        )
