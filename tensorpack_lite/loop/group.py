"""A list of callbacks as one callback: each moment in order, the place within a moment, and errors."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.utils import humanize_time_delta
from .callback import Callback, is_overridden
from .hooks import CallbackToHook
from .state import QUIET_ENDS

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
        phase: the moment that came last: "before_train", "before_epoch", "trigger_step" or "trigger_epoch". Together with
            `num_called`, it is where a checkpoint is taken.
        num_called: how many callbacks of the list this moment has reached, the one that runs included.

    Raises:
        TypeError: one of them is not a Callback.
    """

    def __init__(self, cbs: Sequence[Callback]) -> None:
        for cb in cbs:
            if not isinstance(cb, Callback):
                raise TypeError(f"Callbacks: takes a list of Callback, got {type(cb).__name__} in it.")
        self.cbs = list(cbs)
        self.phase, self.num_called = "before_train", len(self.cbs)
        self._trigger_steps: list[tuple[int, Callable[[], None]]] = []
        self._resumed: tuple[str, int] | None = None
        self._states: dict[str, Any] = {}

    def setup_graph(self, trainer: Trainer) -> None:
        """Set up each callback, from the root name scope."""
        with tf.name_scope(None):
            for cb in self.cbs:
                cb.setup_graph(trainer)

    def resume_at(self, phase: str, num_called: int, states: dict[str, Any]) -> None:
        """
        Continue a training that was saved inside a phase; to be called before `before_train`.

        The first "trigger_step" or "trigger_epoch" leaves out the callbacks that were called before the checkpoint was saved. The
        rest of a "trigger_step" follows `before_epoch`.

        Args:
            phase: as the attribute.
            num_called: how many callbacks of this list the phase had reached.
            states: what `state_dict` returned.
        """
        self._resumed = (phase, num_called)
        self._states = dict(states)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the callbacks that have one, by name; equal names are numbered."""
        states = ((name, cb.state_dict()) for name, cb in _with_names(self.cbs))
        return {name: state for name, state in states if state is not None}

    def _before_train(self) -> None:
        for name, cb in _with_names(self.cbs):
            cb.before_train()
            if name in self._states:
                cb.load_state_dict(self._states.pop(name))
        if self._states:
            logger.info(
                f"The checkpoint has states of callbacks that are not used now: {', '.join(self._states)}."
            )
        self._find_trigger_steps()
        if self._resumed is not None:
            self.phase, self.num_called = self._resumed

    def _before_epoch(self) -> None:
        if self._resumed is None:
            self.phase, self.num_called = "before_epoch", len(self.cbs)
        for cb in self.cbs:
            cb.before_epoch()
        if self._resumed is not None and self.phase != "trigger_epoch":
            if self.phase == "trigger_step":
                self._call_in_step([pair for pair in self._trigger_steps if pair[0] > self.num_called])
            self._resumed = None

    def trigger_step(self) -> None:
        """Call those callbacks that do something at each step."""
        self.phase = "trigger_step"
        self._call_in_step(self._trigger_steps or self._find_trigger_steps())

    def _call_in_step(self, triggers: list[tuple[int, Callable[[], None]]]) -> None:
        for self.num_called, trigger_step in triggers:
            trigger_step()
        self.num_called = len(self.cbs)

    def _find_trigger_steps(self) -> list[tuple[int, Callable[[], None]]]:
        """Find the methods to call at each step, with their numbers in the list; callbacks that do nothing there are left out."""
        self._trigger_steps = [
            (number, cb.trigger_step if is_overridden(cb, "trigger_step") else cb._trigger_step)
            for number, cb in enumerate(self.cbs, 1)
            if is_overridden(cb, "trigger_step") or is_overridden(cb, "_trigger_step")
        ]
        return self._trigger_steps

    def _after_epoch(self) -> None:
        for cb in self.cbs:
            cb.after_epoch()

    def _trigger_epoch(self) -> None:
        """Call each callback, and log which ones took long."""
        first = 0 if self._resumed is None else self.num_called
        self._resumed = None
        self.phase = "trigger_epoch"
        seconds = []
        for number, cb in enumerate(self.cbs[first:], first + 1):
            self.num_called = number
            start = time.perf_counter()
            cb.trigger_epoch()
            seconds.append((str(cb), time.perf_counter() - start))
        _log_slow(seconds)

    def _after_train(self) -> None:
        first_error = None
        for cb in self.cbs:
            try:
                cb.after_train()
            except QUIET_ENDS:
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

    def interrupt(self) -> None:
        """Interrupt each callback."""
        for cb in self.cbs:
            cb.interrupt()

    def get_hooks(self) -> list[Any]:
        """Make one `SessionRunHook` for each callback, in order."""
        return [CallbackToHook(cb) for cb in self.cbs]


def _with_names(cbs: list[Callback]) -> Iterator[tuple[str, Callback]]:
    """Give each callback a name of its own that does not change when other callbacks are added."""
    counts: Counter[str] = Counter()
    for cb in cbs:
        name = str(cb)
        counts[name] += 1
        yield (name if counts[name] == 1 else f"{name}#{counts[name]}"), cb


def _log_slow(seconds: list[tuple[str, float]]) -> None:
    total = sum(secs for _, secs in seconds)
    if total < _SLOW_TOTAL_SECS:
        return
    slow = [(name, secs) for name, secs in seconds if secs > _SLOW_SECS and secs > _SLOW_SHARE * total]
    details = "; ".join(f"{name}: {humanize_time_delta(secs)}" for name, secs in slow)
    logger.info(f"Callbacks took {humanize_time_delta(total)} in this epoch. {details}".rstrip())
