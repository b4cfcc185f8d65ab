"""Callbacks around a callback that decide when it runs."""

from __future__ import annotations

from typing import Any, Callable

from ..loop.callback import Callback, ProxyCallback

__all__ = ["EnableCallbackIf", "PeriodicCallback", "PeriodicTrigger"]


class PeriodicTrigger(ProxyCallback):
    """
    Call `trigger()` of a callback every so many steps or epochs, instead of after each epoch.

    All other moments are passed on as they are.

    Args:
        triggerable: the callback.
        every_k_steps: trigger when `global_step` is a multiple of it, after the step; None means never.
        every_k_epochs: trigger when `epoch_num` is a multiple of it, after the epoch; None means never.
        before_train: trigger once before training, too.

    Raises:
        TypeError: `triggerable` is no callback.
        ValueError: it would never trigger, or a period is not positive.

    Runs at: the moments of the inner callback; trigger as told.

    Example:
        >>> PeriodicTrigger(ModelSaver(), every_k_epochs=5)

    tensorpack: same; there a step and an epoch that end together trigger twice, here once.
    """

    def __init__(
        self,
        triggerable: Callback,
        every_k_steps: int | None = None,
        every_k_epochs: int | None = None,
        before_train: bool = False,
    ) -> None:
        super().__init__(triggerable)
        _check_periods("PeriodicTrigger", every_k_steps, every_k_epochs, otherwise=before_train)
        self._every_k_steps = every_k_steps
        self._every_k_epochs = every_k_epochs
        self._do_before_train = before_train
        self._triggered_at_step = -1

    def _before_train(self) -> None:
        self.cb.before_train()
        if self._do_before_train:
            self.cb.trigger()

    def _trigger_step(self) -> None:
        self.cb.trigger_step()
        if self._every_k_steps is not None and self.global_step % self._every_k_steps == 0:
            self._triggered_at_step = self.global_step
            self.cb.trigger()

    def _trigger_epoch(self) -> None:
        if self._every_k_epochs is None or self.epoch_num % self._every_k_epochs != 0:
            return
        if self._triggered_at_step != self.global_step:
            self.cb.trigger()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the step of the last trigger, and the inner callback's state."""
        return {"triggered_at_step": self._triggered_at_step, "inner": self.cb.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take both."""
        self._triggered_at_step = state["triggered_at_step"]
        if state["inner"] is not None:
            self.cb.load_state_dict(state["inner"])

    def __str__(self) -> str:
        return f"PeriodicTrigger-{self.cb}"


class EnableCallbackIf(ProxyCallback):
    """
    Let a callback run only while a condition holds.

    The condition is asked at before_epoch, before_run (for this run's after_run as well), trigger_step, after_epoch and
    trigger_epoch. The other moments, `trigger()` among them, are always passed on.

    Args:
        callback: the callback.
        pred: `pred(self) -> bool`, given this object, which knows `trainer`, `global_step` and so on.

    Raises:
        TypeError: `callback` is no callback, or `pred` is no function.

    Runs at: the moments of the inner callback, if the condition holds.

    Example:
        >>> EnableCallbackIf(InferenceRunner(df, [ScalarStats("cost")]), lambda self: self.epoch_num > 10)

    tensorpack: same.
    """

    def __init__(self, callback: Callback, pred: Callable[[Any], bool]) -> None:
        super().__init__(callback)
        if not callable(pred):
            raise TypeError(f"{type(self).__name__}: pred is {type(pred).__name__}, wanted a function.")
        self._pred = pred
        self._enabled_in_run = False

    def _before_epoch(self) -> None:
        if self._pred(self):
            super()._before_epoch()

    def _before_run(self, ctx: Any) -> Any:
        self._enabled_in_run = bool(self._pred(self))
        return super()._before_run(ctx) if self._enabled_in_run else None

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        if self._enabled_in_run:
            super()._after_run(ctx, run_values)

    def _trigger_step(self) -> None:
        if self._pred(self):
            super()._trigger_step()

    def _after_epoch(self) -> None:
        if self._pred(self):
            super()._after_epoch()

    def _trigger_epoch(self) -> None:
        if self._pred(self):
            super()._trigger_epoch()

    def __str__(self) -> str:
        return f"{type(self).__name__}-{self.cb}"


class PeriodicCallback(EnableCallbackIf):
    """
    Let a callback run only every so many steps or epochs: it becomes less frequent, never more.

    It runs when `global_step` is a multiple of `every_k_steps`, or `epoch_num` one of `every_k_epochs`; with
    `every_k_epochs`, also at the last step of the last epoch.

    Args:
        callback: the callback.
        every_k_steps: None means not by steps.
        every_k_epochs: None means not by epochs.

    Raises:
        TypeError: `callback` is no callback.
        ValueError: both are None, or one is not positive.

    Runs at: the moments of the inner callback, at those times.

    Example:
        >>> PeriodicCallback(ModelSaver(), every_k_epochs=5)

    tensorpack: same.
    """

    def __init__(
        self, callback: Callback, every_k_steps: int | None = None, every_k_epochs: int | None = None
    ) -> None:
        _check_periods("PeriodicCallback", every_k_steps, every_k_epochs)
        super().__init__(callback, PeriodicCallback._is_due)
        self._every_k_steps = every_k_steps
        self._every_k_epochs = every_k_epochs

    def _is_due(self) -> bool:
        if self._every_k_steps is not None and self.global_step % self._every_k_steps == 0:
            return True
        if self._every_k_epochs is None:
            return False
        return self.epoch_num % self._every_k_epochs == 0 or self._is_last_step()

    def _is_last_step(self) -> bool:
        trainer = self.trainer
        return self.local_step == trainer.steps_per_epoch - 1 and self.epoch_num == trainer.max_epoch


def _check_periods(
    who: str, every_k_steps: int | None, every_k_epochs: int | None, otherwise: bool = False
) -> None:
    if every_k_steps is None and every_k_epochs is None and not otherwise:
        raise ValueError(f"{who}: would never run. Give every_k_steps or every_k_epochs.")
    for name, period in (("every_k_steps", every_k_steps), ("every_k_epochs", every_k_epochs)):
        if period is not None and period < 1:
            raise ValueError(f"{who}: {name} is {period}, wanted at least 1.")
