"""The list of a trainer's callbacks, which the loop calls as one callback."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.errors import describe_got
from ..utils.utils import humanize_time_delta
from .callback import Call, Callback, is_overridden
from .hooks import CallbackToHook
from .proxy_callback import ProxyCallback
from .state import QUIET_ENDS
from .trainer import LoopTrainer

_SLOW_TOTAL_SECS = 2.0
_SLOW_SECS = 1.0
_SLOW_SHARE = 0.3

_CHECKED = ("_before_epoch", "_trigger_epoch")
_IN_LOOP = ("before_epoch", "trigger_step", "trigger_epoch", "trigger")

_Triggers = List[Tuple[int, Optional[Call], Callable[[], None]]]


class Callbacks(Callback):
    """
    A list of callbacks, which are called one after the other at each moment.

    An error is raised at once, except in `after_train`: there all callbacks are called, the first error is
    raised at the end, and the others are logged.

    Args:
        cbs: the callbacks, in the order in which they are called.

    Attributes:
        cbs: the same list.
        phase: the latest moment: "before_train", "before_epoch", "trigger_step" or "trigger_epoch". Together with
            `num_called`, it locates a checkpoint.
        num_called: the number of callbacks that this moment has reached, the running one included.
        current_call: the call in progress, None if there is none. Any thread may read it.
        check: called before each call of `before_epoch`, `trigger_step` and `trigger_epoch`, and after the
            last one of the latter two; it may raise an error. None calls nothing. Set it before
            `before_train`.
        epoch_seconds: the callbacks that the last `trigger_epoch` has called, and the seconds that each took.

    Raises:
        TypeError: an element is not a Callback.
    """

    def __init__(self, cbs: Sequence[Callback]) -> None:
        for cb in cbs:
            if not isinstance(cb, Callback):
                raise TypeError(f"Callbacks: expected a list of Callback, got {describe_got(cb)} in it.")
        self.cbs = list(cbs)
        self.phase, self.num_called = "before_train", len(self.cbs)
        self.current_call: Call | None = None
        self.check: Callable[[], None] | None = None
        self.epoch_seconds: list[tuple[str, float]] = []
        self._trigger_steps: _Triggers = []
        self._resumed: tuple[str, int] | None = None
        self._states: dict[str, Any] = {}
        self._after_load: Callable[[Callback], None] | None = None

    def append(self, cb: Callback) -> None:
        """Add a callback at the end. Call it before `setup_graph`."""
        self.cbs.append(cb)
        self.num_called = len(self.cbs)

    def setup_graph(self, trainer: LoopTrainer) -> None:
        """Set up each callback, from the root name scope."""
        with tf.name_scope(None):
            for cb in self.cbs:
                cb.setup_graph(trainer)

    @property
    def names_without_owed_calls(self) -> list[str]:
        """The names of callbacks that have no call which a resumed training could owe them, because they override no moment of `_IN_LOOP`."""
        methods = [*_IN_LOOP, *(f"_{method}" for method in _IN_LOOP)]
        return [str(cb) for cb in self.cbs if not any(is_overridden(cb, method) for method in methods)]

    def resume_at(
        self,
        phase: str,
        num_called: int,
        states: dict[str, Any],
        after_load: Callable[[Callback], None] | None = None,
    ) -> None:
        """
        Continue a training that was saved inside a phase. Call it before `before_train`.

        The first "trigger_step" or "trigger_epoch" skips the callbacks that had been called when the
        checkpoint was saved. The rest of a "trigger_step" follows `before_epoch`.

        Args:
            phase: see the attribute.
            num_called: the number of callbacks of this list that the phase had reached.
            states: the result of `state_dict`.
            after_load: called with each callback whose state was restored.
        """
        self._resumed = (phase, num_called)
        self._states, self._after_load = dict(states), after_load

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the callbacks that have one, by name; equal names are numbered."""
        states = ((name, cb.state_dict()) for name, cb in zip(_unique_names(self.cbs), self.cbs))
        return {name: state for name, state in states if state is not None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the states of the callbacks, for a group that is itself in a list of callbacks."""
        for name, cb in zip(_unique_names(self.cbs), self.cbs):
            if name in state:
                cb.load_state_dict(state[name])

    def _before_train(self) -> None:
        for cb, name in zip(self._calling("_before_train"), _unique_names(self.cbs)):
            cb.before_train()
            if name in self._states:
                cb.load_state_dict(self._states.pop(name))
                if self._after_load is not None:
                    self._after_load(cb)
        if self._states:
            logger.info(
                f"The checkpoint has states of callbacks that this training does not have: {', '.join(self._states)}."
            )
        self._trigger_steps = _find_triggers(self.cbs)
        if self.check is not None:
            self._trigger_steps = _with_checks(self._trigger_steps, self.check, len(self.cbs))
        if self._resumed is not None:
            self.phase, self.num_called = self._resumed

    def _before_epoch(self) -> None:
        if self._resumed is None:
            self.phase, self.num_called = "before_epoch", len(self.cbs)
        for cb in self._calling("_before_epoch"):
            cb.before_epoch()
        if self._resumed is not None and self.phase != "trigger_epoch":
            if self.phase == "trigger_step":
                self._call_in_step([one for one in self._trigger_steps if one[0] > self.num_called])
            self._resumed = None

    def trigger_step(self) -> None:
        """Call the callbacks that do something at each step."""
        self.phase = "trigger_step"
        self._call_in_step(self._trigger_steps)

    def _call_in_step(self, triggers: _Triggers) -> None:
        for self.num_called, self.current_call, trigger_step in triggers:
            trigger_step()
        self.num_called, self.current_call = len(self.cbs), None

    def replace_calls(self, replace: Callable[[Call, Any], Any]) -> None:
        """Replace each method to call at each step by `replace(call, method)`."""
        self._trigger_steps = [
            (number, call, method if call is None else replace(call, method))
            for number, call, method in self._trigger_steps
        ]

    def _after_epoch(self) -> None:
        for cb in self._calling("_after_epoch"):
            cb.after_epoch()

    def _trigger_epoch(self) -> None:
        """Call each callback, and log the slow ones."""
        first = 0 if self._resumed is None else self.num_called
        self._resumed = None
        self.phase, self.num_called = "trigger_epoch", first
        self.epoch_seconds = seconds = []
        for number, cb in enumerate(self._calling("_trigger_epoch", first), first + 1):
            self.num_called = number
            start = time.perf_counter()
            cb.trigger_epoch()
            seconds.append((str(cb), time.perf_counter() - start))
        _log_slow(seconds)
        if self.check is not None:
            self.check()

    def _after_train(self) -> None:
        first_error = None
        for cb in self._calling("_after_train"):
            try:
                cb.after_train()
            except QUIET_ENDS:
                logger.info(f"{cb} asked to end training in after_train, but training has already ended.")
            except BaseException as error:  # noqa: BLE001 (Ctrl-C too; it is raised after all callbacks are called)
                logger.exception(f"{cb} failed in after_train.")
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def _calling(self, moment: str, first: int = 0) -> Iterator[Callback]:
        """Iterate over the callbacks from the given position on, and set `current_call` for each. Not to be nested: it forgets an outer call."""
        for cb in self.cbs[first:]:
            if self.check is not None and moment in _CHECKED:
                self.current_call = None
                self.check()
            self.current_call = Call(cb, moment)
            yield cb
        self.current_call = None  # after an error, `after_train` comes here

    def undo_call(self) -> None:
        """Count the callback whose call a signal has interrupted as not called. Call it before `after_train`."""
        call, self.current_call = self.current_call, None
        if call is not None and call.moment == f"_{self.phase}":
            self.num_called -= 1

    def background_error(self) -> BaseException | None:
        """Return the first background error of the callbacks."""
        errors = (cb.background_error() for cb in self.cbs)
        return next((error for error in errors if error is not None), None)

    def interrupt(self) -> None:
        """Interrupt each callback."""
        for cb in self.cbs:
            cb.interrupt()

    def get_hooks(self) -> list[tf.train.SessionRunHook]:
        """Return one `SessionRunHook` for each callback, in order."""
        return [CallbackToHook(cb) for cb in self.cbs]


def innermost(callback: Callback) -> Callback:
    """Return the callback inside all proxies."""
    while isinstance(callback, ProxyCallback):
        callback = callback.cb
    return callback


def _find_triggers(cbs: list[Callback]) -> _Triggers:
    """Find the methods to call at each step, with their callbacks' numbers from 1; those that do nothing are omitted."""
    return [
        (
            number,
            Call(cb, "_trigger_step"),
            cb.trigger_step if is_overridden(cb, "trigger_step") else cb._trigger_step,
        )
        for number, cb in enumerate(cbs, 1)
        if is_overridden(cb, "trigger_step") or is_overridden(cb, "_trigger_step")
    ]


def _with_checks(triggers: _Triggers, check: Callable[[], None], num_cbs: int) -> _Triggers:
    """Add a check before each trigger, with the number of callbacks that have been called by then, and one after the last."""
    checked: _Triggers = [(0, None, check)]
    for trigger in triggers:
        checked += [trigger, (trigger[0], None, check)]
    checked[-1] = (num_cbs, None, check)
    return checked


def _unique_names(cbs: list[Callback]) -> list[str]:
    """Give each callback a unique name that does not change when other callbacks are added."""
    names = [cb.state_name for cb in cbs]
    counts = (names[: i + 1].count(name) for i, name in enumerate(names))
    return [name if count == 1 else f"{name}#{count}" for name, count in zip(names, counts)]


def _log_slow(seconds: list[tuple[str, float]]) -> None:
    total = sum(secs for _, secs in seconds)
    if total < _SLOW_TOTAL_SECS:
        return
    slow = [(name, secs) for name, secs in seconds if secs > _SLOW_SECS and secs > _SLOW_SHARE * total]
    details = "; ".join(f"{name}: {humanize_time_delta(secs)}" for name, secs in slow)
    logger.info(f"Callbacks took {humanize_time_delta(total)} in this epoch. {details}".rstrip())
