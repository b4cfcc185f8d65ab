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
from .moments import MOMENTS, OWED, Moment, after_step, of_step
from .proxy_callback import ProxyCallback
from .state import QUIET_ENDS
from .trainer import LoopTrainer

_SLOW_TOTAL_SECS = 2.0
_SLOW_SECS = 1.0
_SLOW_SHARE = 0.3

_OWED = [name for name, moment in MOMENTS.items() if moment.at_resume == OWED] + ["trigger"]  # which they call

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
        phase: the latest moment at which a training can resume; see `Moment.at_resume`. Together with `num_called`, it locates a checkpoint.
        num_called: the number of callbacks that this moment has reached, the running one included; all if it would be repeated.
        current_call: the call in progress, None if there is none. Any thread may read it.
        check: called before each call of the moments with `Moment.is_checked`, and after the last one of `trigger_epoch` and of those
            of each step; it may raise an error. None calls nothing. Set it before `before_train`.
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
        self._in_step: dict[str, _Triggers] = {}  # by moment, from `before_train` on
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
        """The names of callbacks that have no call which a resumed training could owe them, because they override none of these moments."""
        methods = [*_OWED, *(f"_{method}" for method in _OWED)]
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

        The first call of a phase whose calls are owed skips the callbacks that had been called when the checkpoint was saved.
        What is left of the moments that follow a step follows `before_epoch`; what is left of one before a step comes before it.

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
        for cb, name in zip(self._calling("before_train"), _unique_names(self.cbs)):
            cb.before_train()
            if name in self._states:
                cb.load_state_dict(self._states.pop(name))
                if self._after_load is not None:
                    self._after_load(cb)
        if self._states:
            logger.info(
                f"The checkpoint has states of callbacks that this training does not have: {', '.join(self._states)}."
            )
        self._in_step = {moment: _find_triggers(self.cbs, moment) for moment in of_step()}
        if self.check is not None:
            for moment, triggers in self._in_step.items():
                if MOMENTS[moment].is_checked:
                    self._in_step[moment] = _with_checks(triggers, self.check, len(self.cbs))
        if self._resumed is not None:
            self.phase, self.num_called = self._resumed

    def _before_epoch(self) -> None:
        self._forward("before_epoch")
        phase = None if self._resumed is None else self._resumed[0]
        if phase in after_step():
            for moment in after_step()[after_step().index(phase) :]:
                getattr(self, moment)()

    def trigger_step(self) -> None:
        """Call the callbacks that do something after each step."""
        self._call_in_step("trigger_step")  # not by way of `_forward`, because this is called most often

    def _call_in_step(self, moment: str) -> None:
        """Call the callbacks that do something at a moment of each step."""
        triggers = self._in_step[moment]
        if self._resumed is None:
            self.phase = moment
        else:
            first = self._begin(MOMENTS[moment])
            triggers = [trigger for trigger in triggers if trigger[0] > first]
        for self.num_called, self.current_call, method in triggers:
            method()
        self.num_called, self.current_call = len(self.cbs), None

    def replace_calls(self, replace: Callable[[Call, Any], Any]) -> None:
        """Replace each method to call at each step by `replace(call, method)`."""
        for moment, triggers in self._in_step.items():
            self._in_step[moment] = [
                (number, call, method if call is None else replace(call, method)) for number, call, method in triggers
            ]

    def _trigger_epoch(self) -> None:
        """Call each callback, and log the slow ones."""
        self.epoch_seconds = seconds = []
        for cb in self._calling("trigger_epoch"):
            start = time.perf_counter()
            cb.trigger_epoch()
            seconds.append((str(cb), time.perf_counter() - start))
        _log_slow(seconds)
        if self.check is not None:
            self.check()

    def _after_train(self) -> None:
        first_error = None
        for cb in self._calling("after_train"):
            try:
                cb.after_train()
            except QUIET_ENDS:
                logger.info(f"{cb} asked to end training in after_train, but training has already ended.")
            except BaseException as error:  # noqa: BLE001 (Ctrl-C too; it is raised after all callbacks are called)
                logger.exception(f"{cb} failed in after_train.")
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def _forward(self, moment: str) -> None:
        if moment in self._in_step:
            self._call_in_step(moment)
            return
        for cb in self._calling(moment):
            getattr(cb, moment)()

    def _calling(self, moment: str) -> Iterator[Callback]:
        """Iterate over the callbacks to call, and set `current_call` for each. Not to be nested: it forgets an outer call."""
        row = MOMENTS[moment]
        first = self._begin(row)
        for number, cb in enumerate(self.cbs[first:], first + 1):
            if self.check is not None and row.is_checked:
                self.current_call = None
                self.check()
            if row.at_resume == OWED:
                self.num_called = number
            self.current_call = Call(cb, f"_{moment}")
            yield cb
        self.current_call = None  # after an error, `after_train` comes here

    def _begin(self, row: Moment) -> int:
        """Set the phase at the beginning of a moment. Return how many callbacks had been called in it when the checkpoint was saved."""
        is_owed = row.at_resume == OWED
        if self._resumed is not None and self._resumed[0] != row.name:  # the phase is still that of the checkpoint
            return len(self.cbs) if is_owed else 0
        first = 0 if self._resumed is None or not is_owed else self._resumed[1]
        self._resumed = None
        if row.at_resume:
            self.phase, self.num_called = row.name, first if is_owed else len(self.cbs)
        return first

    def undo_call(self) -> None:
        """Count the callback whose call a signal has interrupted as not called. Call it before `after_train`."""
        call, self.current_call = self.current_call, None
        if call is not None and call.moment == f"_{self.phase}" and MOMENTS[self.phase].at_resume == OWED:
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


def _find_triggers(cbs: list[Callback], moment: str) -> _Triggers:
    """Find the methods to call at a moment of each step, with their callbacks' numbers from 1; those that do nothing are omitted."""
    inner = f"_{moment}"
    return [
        (number, Call(cb, inner), getattr(cb, moment if is_overridden(cb, moment) else inner))
        for number, cb in enumerate(cbs, 1)
        if is_overridden(cb, moment) or is_overridden(cb, inner)
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
