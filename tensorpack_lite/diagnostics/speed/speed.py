"""Callback that reports the bottleneck of a training."""

from __future__ import annotations

from threading import Timer
from time import perf_counter
from typing import Any, Sequence

from ...input_source.reset import inputs_of
from ...loop.callback import Call, Callback
from ...loop.extension import ExtendedTrainer
from ...loop.session import HookedSession
from ...ranks.alone import AloneChannel
from ...utils import logger
from ...utils.notes import write_note
from .operation_threads import advise_threads
from .speed_verdict import CALLBACKS, GRAPH, VARIES, Facts, Verdict, describe_slowest, judge, summarize
from .speed_window import SpeedWindow
from .stage_rows import format_rows, make_rows

_WINDOW = 1 / 6  # of `after`: the length of a window; before it, buffers become full or empty
_MIN_SECONDS = 0.01  # of a callback between epochs, to be noted


class CallTimes:
    """
    Measurement of each call of a callback in a step, from now on until `stop`.

    Args:
        callers: objects with a method `replace_calls(replace)`, which calls `replace(call, method)` for each method of a
            callback that they call in a step, and uses the result instead.

    Attributes:
        seconds: of all calls together, by "<callback>, <moment>".
    """

    def __init__(self, callers: Sequence[Any]) -> None:
        self._callers = callers
        self.seconds: dict[str, float] = {}
        for caller in callers:
            caller.replace_calls(self._measured)

    def stop(self) -> None:
        """Measure no more."""
        for caller in self._callers:
            caller.replace_calls(lambda _, method: method.method if isinstance(method, _Measured) else method)

    def _measured(self, call: Call, method: Any) -> _Measured:
        return _Measured(f"{call.callback}, {call.moment[1:]}", method, self.seconds)


class _Measured:
    def __init__(self, name: str, method: Any, seconds: dict[str, float]) -> None:
        self.method, self.__self__ = method, getattr(method, "__self__", method)
        self._name, self._seconds = name, seconds

    def __call__(self, *args: Any) -> Any:
        begin = perf_counter()
        result = self.method(*args)
        self._seconds[self._name] = self._seconds.get(self._name, 0.0) + perf_counter() - begin
        return result


class Speed(Callback):
    """
    Callback that logs what limits the speed of the training, and the gain of more workers.

    It measures in windows: the first one ends after `after` seconds of steps, and each later epoch has at most one. Outside of
    windows, nothing is done in a step. It logs one line after the first window, and another one after a later window if the
    bottleneck has changed. A table of the stages follows if the pipeline can be made faster. The numbers are also written to
    `notes.jsonl` in the logger's directory. Shorter training runs get no line. With several ranks, the chief says at the end of an
    epoch for which rank the others wait. Of several Speed callbacks, only the first one does anything. See docs/speed.md.

    Args:
        after: seconds of steps, without the time between epochs, until the end of a window. The last sixth of them is
            measured. A window with less than 200 steps is up to five times as long.

    Runs at: before_train, before_epoch, each step of a window, after_epoch, trigger_epoch, after_train. In every process of a
        distributed training.
    """

    _chief_only = False
    trainer: ExtendedTrainer

    def __init__(self, after: float = 30.0) -> None:
        self._length = _WINDOW * after
        self._pause = after - self._length  # before each window
        self._source: Any = None  # the input of the training, if its speed can be explained
        self._window: SpeedWindow | None = None  # the present or next one
        self._timer: Timer | None = None  # until it begins
        self._remaining = self._pause  # seconds of steps until it begins
        self._last: Verdict | None = None
        self._channel = AloneChannel()
        self._summary: dict[str, Any] | None = None  # of the last verdict, for the chief
        self._slowest: int | None = None  # the rank that the chief has named
        self._calls: CallTimes | None = None  # in use if callbacks seem to limit
        self._epoch_begin = self._epoch_seconds = 0.0

    def _before_train(self) -> None:
        sources = inputs_of(self.trainer)
        is_first = next(iter(self.trainer.find_callbacks(Speed)), self) is self
        if is_first and len(sources) == 1 and isinstance(self.trainer.hooked_sess, HookedSession):
            self._source = sources[0]
        self._channel = self.trainer.ranks.channel

    def _before_epoch(self) -> None:
        self._stop()  # a wrapper may have left out `_after_epoch`
        self._epoch_begin = perf_counter()
        if self._source is None:
            return
        if self._window is None:
            self._window, self._remaining = self._make_window(), self._pause
        observers = self.trainer.hooked_sess.observers
        self._timer = Timer(max(0.0, self._remaining), observers.append, [self._window])
        self._timer.daemon = True
        self._timer.start()

    def _after_epoch(self) -> None:
        self._stop()
        self._epoch_seconds = perf_counter() - self._epoch_begin
        self._remaining -= self._epoch_seconds

    def _trigger_epoch(self) -> None:
        if self._window is not None and self._window.is_sufficient:
            self._say(self._window)
        if self._channel.size > 1:
            self._compare_ranks()

    def _after_train(self) -> None:
        self._stop_observing()

    def _make_window(self) -> SpeedWindow:
        return SpeedWindow(self._source, self.trainer.loop, self._length, self._end_window)

    def _stop(self) -> None:
        """Do nothing in steps until the next epoch."""
        self._stop_observing()
        if self._window is not None:
            self._window.pause()

    def _stop_observing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None
        if self._window is not None and self._window in self.trainer.hooked_sess.observers:
            self.trainer.hooked_sess.observers.remove(self._window)

    def _end_window(self) -> None:
        window: Any = self._window
        self._stop_observing()
        self._say(window)
        if self._window is not None:
            self.trainer.hooked_sess.observers.append(self._window)

    def _say(self, window: SpeedWindow) -> None:
        self._window = None
        trainer = self.trainer
        facts = window.facts(self._epoch_seconds, trainer.callbacks.epoch_seconds, self._mean_calls(window))
        facts = facts._replace(is_alone=self._channel.size == 1)
        verdict = judge(facts)
        is_new = self._last is None or verdict.limit not in (self._last.limit, VARIES)
        if is_new and verdict.limit == GRAPH:
            verdict = verdict._replace(text=verdict.text + advise_threads(trainer))
        self._summary = summarize(facts, verdict)
        if is_new and verdict.limit == CALLBACKS and self._calls is None:
            self._calls = CallTimes([trainer.callbacks, trainer.hooked_sess])
            self._window, self._remaining = self._make_window(), 0.0
            return  # the next window says it, with their names
        if self._calls is not None:
            self._calls.stop()
            self._calls = None
        if is_new:
            self._last = verdict
        if is_new and self.trainer.is_chief:
            load = facts.load
            rows = [] if load is None else make_rows(load.parts, load.num_steps, load.seconds)
            if verdict.is_worth_a_line:
                logger.info(f"Speed: {verdict.text}")
            if verdict.shows_stages and rows:
                logger.info(f"Stages of the data:\n{format_rows(rows)}")
            write_note("speed", verdict.text, **_values(facts, verdict, rows))

    def _compare_ranks(self) -> None:
        """Say on the chief for which rank the others wait, if it is another one than before."""
        summaries = self._channel.gather("the speeds of the ranks", self._summary)
        slowest = None if summaries is None else describe_slowest(summaries)
        if slowest is not None and slowest.rank != self._slowest:
            self._slowest = slowest.rank
            logger.info(f"Speed: {slowest.text}")
            write_note("speed of ranks", slowest.text, rank=slowest.rank)

    def _mean_calls(self, window: SpeedWindow) -> list[tuple[str, float]] | None:
        """Return the seconds of each method of a callback in a step, the largest first; None if not measured."""
        if self._calls is None:
            return None
        means = [(name, seconds / window.num_steps) for name, seconds in self._calls.seconds.items()]
        return sorted(means, key=lambda pair: -pair[1])


def _values(facts: Facts, verdict: Verdict, rows: list[dict[str, Any]]) -> dict[str, Any]:
    load, milliseconds = facts.load, {}
    for name, seconds in {**facts.division._asdict(), "total": facts.division.total}.items():
        milliseconds[name] = None if seconds is None else 1e3 * seconds
    graph = cores = None
    if load is not None:
        graph = None if load.graph is None else 1e3 * load.graph
        cores = {"usable": load.cores, "busy": None if load.cpu is None else load.cpu / load.seconds}
    between = [(name, seconds) for name, seconds in facts.between if seconds >= _MIN_SECONDS]
    return {
        "limit": verdict.limit,
        "step": milliseconds,
        "graph_ms": graph,
        "graph_is_seen": facts.is_graph_seen,
        "cores": cores,
        "between_epochs": [{"callback": name, "seconds": seconds} for name, seconds in between],
        "calls_ms": {name: 1e3 * seconds for name, seconds in facts.calls or ()},
        "epoch_seconds": facts.epoch,
        "stages": rows,
    }
