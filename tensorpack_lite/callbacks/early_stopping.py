"""The end of a training that does not get better any more."""

from __future__ import annotations

from ..loop.callback import Callback
from ..loop.state import StopTraining
from ..utils import logger

__all__ = ["EarlyStopping"]

_MODES = ("min", "max")


class EarlyStopping(Callback):
    """
    End training when a statistic has not improved for a while; known by this name from Keras and PyTorch Lightning.

    Each trigger takes the newest value of the statistic. It improves when it is better than the best value so far by more
    than `min_delta`; NaN is never better. After `patience` values in a row without an improvement, training ends, as
    with `StopTraining`, right before the next epoch or after the next step: so all that the other callbacks do at this
    trigger, such as saving and writing statistics, is done.

    Args:
        monitor_stat: a scalar of `trainer.monitors`.
        mode: "min" when smaller is better, "max" when larger is.
        patience: how many values without an improvement it takes, >= 1.
        min_delta: the least improvement that counts, in the units of the statistic, >= 0.

    Raises:
        ValueError: an argument is out of range.

    Attributes:
        best: `(step, value)` of the last improvement, or None.
        num_bad: how many values came since then.

    Runs at: before_epoch, trigger_step, trigger. It comes after what reports the statistic. A trigger without a new value
    warns and does not count.

    Example:
        >>> EarlyStopping("validation_error", patience=5)
        >>> EarlyStopping("validation_accuracy", mode="max", patience=3, min_delta=0.001)

    Note: a training that resumes counts anew. To go back to the best weights, keep them with `MinSaver` or `TopKSaver`.
    """

    def __init__(
        self, monitor_stat: str, mode: str = "min", patience: int = 3, min_delta: float = 0.0
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"EarlyStopping: mode is {mode!r}, wanted 'min' or 'max'.")
        if patience < 1:
            raise ValueError(f"EarlyStopping: patience is {patience}, wanted at least 1.")
        if not min_delta >= 0:
            raise ValueError(f"EarlyStopping: min_delta is {min_delta}, wanted 0 or more.")
        self.monitor_stat = monitor_stat
        self.mode = mode
        self.patience = patience
        self.min_delta = min_delta
        self.best: tuple[int, float] | None = None
        self.num_bad = 0
        self._last_step = -1

    def _before_train(self) -> None:
        self.best = None
        self.num_bad = 0
        self._last_step = -1

    def _before_epoch(self) -> None:
        self._stop_if_due()

    def _trigger_step(self) -> None:
        self._stop_if_due()

    def _trigger(self) -> None:
        history = self.trainer.monitors.get_history(self.monitor_stat)
        if not history:
            logger.warning("EarlyStopping: nobody has reported '%s' yet.", self.monitor_stat)
            return
        step, value = history[-1]
        if step == self._last_step:
            logger.warning("EarlyStopping: '%s' has no value since step %d.", self.monitor_stat, step)
            return
        self._last_step = step
        if self._is_improvement(value):
            self.best = (step, value)
            self.num_bad = 0
            return
        self.num_bad += 1
        logger.info(
            "EarlyStopping: '%s' = %.5g is no improvement (%d of %d).",
            self.monitor_stat,
            value,
            self.num_bad,
            self.patience,
        )

    def _is_improvement(self, value: float) -> bool:
        if self.best is None:
            return value == value  # not NaN
        gain = self.best[1] - value if self.mode == "min" else value - self.best[1]
        return gain > self.min_delta

    def _stop_if_due(self) -> None:
        if self.num_bad < self.patience:
            return
        best = (
            "it was never a number"
            if self.best is None
            else f"best {self.best[1]:.5g} at step {self.best[0]}"
        )
        raise StopTraining(
            f"EarlyStopping: '{self.monitor_stat}' has not improved in its last {self.num_bad} values ({best})."
        )
