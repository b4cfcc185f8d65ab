"""Many callbacks as one: the same moment for each, in order, and what happens when one fails."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.utils import humanize_time_delta
from .callback import Callback, is_overridden
from .hooks import CallbackToHook
from .state import StopTraining

if TYPE_CHECKING:
    from ..train.base import Trainer

__all__ = ["Callbacks"]

_SLOW_TOTAL_SECS = 2.0
_SLOW_SECS = 1.0
_SLOW_SHARE = 0.3


class Callbacks(Callback):
    """
    A list of callbacks, called one after the other at each moment.

    An error goes to the caller at once, except in `after_train`: there all callbacks are called, and the first error is
    raised at the end; the others are logged.

    Args:
        cbs: the callbacks, in the order in which they are called.

    Attributes:
        cbs: the same list.

    Raises:
        TypeError: one of them is no callback.

    tensorpack: same; there errors in `after_train` are printed and forgotten.
    """

    def __init__(self, cbs: Sequence[Callback]) -> None:
        for cb in cbs:
            if not isinstance(cb, Callback):
                raise TypeError(f"Callbacks: takes a list of Callback, got {type(cb).__name__} in it.")
        self.cbs = list(cbs)
        self._trigger_steps: list[Callable[[], None]] | None = None

    def setup_graph(self, trainer: Trainer) -> None:
        """Set up each callback, from the root name scope."""
        with tf.name_scope(None):
            for cb in self.cbs:
                cb.setup_graph(trainer)

    def _before_train(self) -> None:
        for cb in self.cbs:
            cb.before_train()
        self._trigger_steps = _step_triggers(self.cbs)

    def _before_epoch(self) -> None:
        for cb in self.cbs:
            cb.before_epoch()

    def trigger_step(self) -> None:
        """Call those callbacks that do something at each step."""
        if self._trigger_steps is None:
            self._trigger_steps = _step_triggers(self.cbs)
        for trigger_step in self._trigger_steps:
            trigger_step()

    def _after_epoch(self) -> None:
        for cb in self.cbs:
            cb.after_epoch()

    def _trigger_epoch(self) -> None:
        """Call each callback, and log which ones took long."""
        seconds = []
        for cb in self.cbs:
            start = time.perf_counter()
            cb.trigger_epoch()
            seconds.append((str(cb), time.perf_counter() - start))
        _log_slow(seconds)

    def _after_train(self) -> None:
        first_error = None
        for cb in self.cbs:
            try:
                cb.after_train()
            except (StopTraining, tf.errors.OutOfRangeError):
                logger.info(f"{cb} asked for the end in after_train, where it has come.")
            except BaseException as error:  # noqa: BLE001 (Ctrl-C too: raised below, when every callback had its turn)
                logger.exception(f"{cb} failed in after_train.")
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def background_error(self) -> BaseException | None:
        """Give the first error behind one of the callbacks."""
        errors = (cb.background_error() for cb in self.cbs)
        return next((error for error in errors if error is not None), None)

    def get_hooks(self) -> list[Any]:
        """Make one `SessionRunHook` for each callback, in order."""
        return [CallbackToHook(cb) for cb in self.cbs]


def _step_triggers(cbs: list[Callback]) -> list[Callable[[], None]]:
    """Give the methods to call at each step; callbacks that do nothing there are left out."""
    methods = []
    for cb in cbs:
        if is_overridden(cb, "trigger_step"):
            methods.append(cb.trigger_step)
        elif is_overridden(cb, "_trigger_step"):
            methods.append(cb._trigger_step)
    return methods


def _log_slow(seconds: list[tuple[str, float]]) -> None:
    total = sum(secs for _, secs in seconds)
    if total < _SLOW_TOTAL_SECS:
        return
    slow = [(name, secs) for name, secs in seconds if secs > _SLOW_SECS and secs > _SLOW_SHARE * total]
    details = "; ".join(f"{name}: {humanize_time_delta(secs)}" for name, secs in slow)
    logger.info(f"Callbacks took {humanize_time_delta(total)} in this epoch. {details}".rstrip())
