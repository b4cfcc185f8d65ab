"""Callbacks that decide when another callback runs."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..loop.moments import MOMENTS
from ..loop.proxy_callback import ProxyCallback
from ..utils.checks import check_callable, check_count


class PeriodicTrigger(ProxyCallback):
    """
    Wrapper that calls `trigger()` of a callback every k steps or epochs, instead of after each epoch.

    All other methods of the callback are called as usual.

    Args:
        triggerable: the callback.
        every_k_steps: trigger after each step for which `global_step` is a multiple of this number; None means never.
        every_k_epochs: trigger after each epoch for which `epoch_num` is a multiple of this number; None means never.
        before_train: also trigger once before training. A training that resumes with `exact` has done that already.

    Raises:
        TypeError: `triggerable` is not a callback.
        ValueError: both periods are None, or one is not positive or not whole.

    Attributes:
        was_triggered: whether the callback was triggered since the process started.

    Runs at: the same times as the inner callback; trigger as the arguments say.

    Example:
        >>> PeriodicTrigger(ModelSaver(), every_k_epochs=5)

    Difference from tensorpack: if a step and an epoch are due at the same time, tensorpack 0.11 triggers
    twice, this library once.
    """

    def __init__(
        self,
        triggerable: Callback,
        every_k_steps: int | None = None,
        every_k_epochs: int | None = None,
        before_train: bool = False,
    ) -> None:
        super().__init__(triggerable)
        periods = _check_periods("PeriodicTrigger", every_k_steps, every_k_epochs, otherwise=before_train)
        self._every_k_steps, self._every_k_epochs = periods
        self._do_before_train = before_train
        self._triggered_at_step = -1
        self.was_triggered = False

    def act_in_each_epoch(self) -> None:
        """Trigger after each epoch, too, for a rehearsal of two epochs."""
        self._every_k_epochs = 1

    def _before_train(self) -> None:
        self.cb.before_train()
        if self._do_before_train and not (self.trainer.exact and self.trainer.loop.is_resumed):
            self._trigger_inner()

    def _trigger_step(self) -> None:
        self.cb.trigger_step()
        if self._every_k_steps is not None and self.global_step % self._every_k_steps == 0:
            self._triggered_at_step = self.global_step
            self._trigger_inner()

    def _trigger_epoch(self) -> None:
        if self._every_k_epochs is None or self.epoch_num % self._every_k_epochs != 0:
            return
        if self._triggered_at_step != self.global_step:
            self._trigger_inner()

    def _trigger_inner(self) -> None:
        self.was_triggered = True
        self.cb.trigger()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the step of the last trigger, and the inner callback's state."""
        return {"triggered_at_step": self._triggered_at_step, "inner": self.cb.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the step of the last trigger, and the inner callback's state."""
        self._triggered_at_step = state["triggered_at_step"]
        if state["inner"] is not None:
            self.cb.load_state_dict(state["inner"])

    def __str__(self) -> str:
        return f"PeriodicTrigger-{self.cb}"


class EnableCallbackIf(ProxyCallback):
    """
    Wrapper that calls a callback only while a condition holds.

    The condition is evaluated at each moment of an epoch, step or run (`Moment.period`), but only once for a run's before_run and
    after_run. All other methods, including `trigger()`, are always called.

    Args:
        callback: the callback.
        pred: the condition, `pred(self) -> bool`; `self` is this object, with `trainer`, `global_step` and so on.

    Raises:
        TypeError: `callback` is not a callback, or `pred` is not callable.

    Attributes:
        was_triggered: whether the callback's `trigger_epoch` was called since the process started.

    Runs at: the same times as the inner callback, if the condition holds.

    Example:
        >>> EnableCallbackIf(InferenceRunner(df, [ScalarStats("cost")]), lambda self: self.epoch_num > 10)
    """

    def __init__(self, callback: Callback, pred: Callable[[Any], bool]) -> None:
        super().__init__(callback)
        self._pred = check_callable(f"{type(self).__name__}: pred", pred)
        self._enabled_in_run = False
        self.was_triggered = False

    def _forward(self, moment: str) -> None:
        if not MOMENTS[moment].period or self._pred(self):
            super()._forward(moment)

    def _trigger_epoch(self) -> None:
        if self._pred(self):
            self.was_triggered = True
            self.cb.trigger_epoch()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        self._enabled_in_run = bool(self._pred(self))
        return super()._before_run(ctx) if self._enabled_in_run else None

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        if self._enabled_in_run:
            super()._after_run(ctx, run_values)

    def __str__(self) -> str:
        return f"{type(self).__name__}-{self.cb}"


class PeriodicCallback(EnableCallbackIf):
    """
    Wrapper that calls a callback only every k steps or epochs. It is called less often than usual, never more often.

    It is called when `global_step` is a multiple of `every_k_steps` or `epoch_num` is a multiple of
    `every_k_epochs`. With `every_k_epochs`, it is also called at the last step of the last epoch.

    Args:
        callback: the callback.
        every_k_steps: period in steps, or None.
        every_k_epochs: period in epochs, or None.

    Raises:
        TypeError: `callback` is not a callback.
        ValueError: both periods are None, or one is not positive or not whole.

    Runs at: the same times as the inner callback, if a period is due.

    Example:
        >>> PeriodicCallback(ModelSaver(), every_k_epochs=5)
    """

    def __init__(self, callback: Callback, every_k_steps: int | None = None, every_k_epochs: int | None = None) -> None:
        _check_periods("PeriodicCallback", every_k_steps, every_k_epochs)
        super().__init__(callback, PeriodicCallback._is_due)
        self._every_k_steps = every_k_steps
        self._every_k_epochs = every_k_epochs

    def act_in_each_epoch(self) -> None:
        """Call the callback in each epoch, for a rehearsal of two epochs."""
        self._every_k_epochs = 1

    def _is_due(self) -> bool:
        if self._every_k_steps is not None and self.global_step % self._every_k_steps == 0:
            return True
        if self._every_k_epochs is None:
            return False
        trainer = self.trainer
        is_last = self.local_step == trainer.steps_per_epoch - 1 and self.epoch_num == trainer.max_epoch
        return is_last or self.epoch_num % self._every_k_epochs == 0


class PeriodicRunHooks(ProxyCallback):
    """
    Wrapper that calls a callback's `before_run` and `after_run` only for every k-th step.

    They are called in a run that begins when `global_step` is a multiple of k: the first, the (k+1)-th step and so on.
    All other methods of the callback are called as usual. The other steps do not compute what the callback fetches.

    Args:
        callback: the callback.
        every_k_steps: the period k, in steps.

    Raises:
        TypeError: `callback` is not a callback, or `every_k_steps` is not a number.
        ValueError: `every_k_steps` is not positive or not whole.

    Runs at: the same times as the inner callback; before_run and after_run as `every_k_steps` says.

    Example:
        >>> PeriodicRunHooks(ProcessTensors(["cost"], print), every_k_steps=100)
    """

    def __init__(self, callback: Callback, every_k_steps: int) -> None:
        super().__init__(callback)
        self._every_k_steps = check_count("PeriodicRunHooks: every_k_steps", every_k_steps, 1)
        self._enabled_in_run = False

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        self._enabled_in_run = self.global_step % self._every_k_steps == 0
        return self.cb.before_run(ctx) if self._enabled_in_run else None

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        if self._enabled_in_run:
            self.cb.after_run(ctx, run_values)

    def __str__(self) -> str:
        return f"PeriodicRunHooks-{self.cb}"


def _check_periods(
    who: str, every_k_steps: int | None, every_k_epochs: int | None, otherwise: bool = False
) -> list[int | None]:
    if every_k_steps is None and every_k_epochs is None and not otherwise:
        raise ValueError(f"{who}: would never run. Pass every_k_steps or every_k_epochs.")
    periods = {"every_k_steps": every_k_steps, "every_k_epochs": every_k_epochs}
    return [None if period is None else check_count(f"{who}: {name}", period, 1) for name, period in periods.items()]
