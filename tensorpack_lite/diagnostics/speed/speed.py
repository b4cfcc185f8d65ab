"""Callback that reports the bottleneck of a training."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import numpy as np

from ...callbacks.step_division import Steps
from ...dataflow.meter import Meter
from ...input_source.base import ProxyInputSource
from ...input_source.feed import FeedInput
from ...input_source.reset import ResetInput
from ...input_source.staging import StagingInput
from ...loop.callback import Callback
from ...loop.session import HookedSession, RunTimes
from ...utils import logger
from ...utils.cores import CpuTimes, cpu_times, usable_cores
from ...utils.inspection import call_within
from ...utils.memory import available_memory
from ...utils.notes import write_note
from .bottleneck import Load
from .call_times import CallTimes
from .pipeline_load import HERE, Part, Snapshot, Stage, parts_between, take_snapshot
from .speed_verdict import CALLBACKS, VARIES, Facts, Verdict, describe_slowest, judge, summarize
from .stage_rows import format_rows, make_rows

__all__ = ["Speed"]

_BLOCK = 1024  # steps that are measured before their times are taken
# After a block of short steps, the next steps are only counted: measuring a step costs a microsecond.
_SHORT_BLOCK = 0.25e9  # nanoseconds
_NUM_SKIPPED = 3 * _BLOCK
_LOOK_EVERY = 64  # of the steps that are only counted
_MAX_DIFFERENCE = 1.25  # between their mean time and that of the block before; otherwise no more are skipped
_MIN_SECONDS = 0.01  # of a callback between epochs, to be noted
_WARM_UP = 1 / 6  # of `after`: the first steps, whose buffers are full or empty by chance


class Speed(Callback):
    """
    Callback that logs what limits the speed of the training, and the gain of more workers.

    It logs one line after the first `after` seconds of steps, and another one at the end of an epoch if the bottleneck has
    changed. A table of the stages follows if the pipeline can be made faster. The numbers are also written to `notes.jsonl`
    in the logger's directory. Shorter trainings get no line. With several ranks, the chief says at the end of an epoch for
    which rank the others wait. Of several Speed callbacks, only the first one does anything. See docs/speed.md.

    Args:
        after: seconds of steps, without the time between epochs, that are measured for a verdict.

    Runs at: before_train, before_epoch, each step, after_epoch, trigger_epoch. In every process of a distributed training.
    """

    _chief_only = False

    def __init__(self, after: float = 30.0) -> None:
        self._after = after
        self._source: Any = None  # the input of the training, if its speed can be explained
        self._window: _Window | None = None
        self._last: Verdict | None = None
        self._channel: Any = None
        self._summary: dict[str, Any] | None = None  # of the last verdict, for the chief
        self._slowest: int | None = None  # the rank that the chief has named
        self._calls: CallTimes | None = None  # in use if callbacks seem to limit
        self._calls_steps = 0  # the number of steps in which they are measured
        self._steps_seen = 0.0  # seconds
        self._next_look = 0  # in nanoseconds
        self._look_interval = int(after / 30 * 1e9)
        self._num_to_skip = 0  # steps that are still to be counted without measuring them
        self._ends: list[int] = []  # nanoseconds at the end of each step since the last look
        self._last_end = 0  # of the last step before them, or the begin of the epoch
        self._epoch_seconds = 0.0

    def _before_train(self) -> None:
        sources = [reset.source for reset in self.trainer.find_callbacks(ResetInput)]
        session, self._source = self.trainer.hooked_sess, None
        if len(sources) == 1 and isinstance(session, HookedSession) and session.record_times():
            self._source = sources[0]
        ranks = self.trainer.ranks
        self._channel = None if ranks is None else ranks.channel
        self._epoch_begin = self._last_end = perf_counter_ns()

    def _before_epoch(self) -> None:
        if self._num_to_skip:
            self._end_skip()  # a wrapper has left out `_after_epoch`
        if self._source is not None:
            self._take_times()  # of runs between epochs
        self._epoch_begin = self._last_end = perf_counter_ns()
        if self._window is not None:
            self._window.resume()
            self._window.steps.set_end(self._last_end)

    def _trigger_step(self) -> None:
        if self._source is None:
            return
        if self._num_to_skip:
            self._num_to_skip -= 1
            if self._num_to_skip % _LOOK_EVERY == 0:
                self._end_skip_if_due()
            return
        now = perf_counter_ns()
        self._ends.append(now)
        if now > self._next_look or len(self._ends) >= _BLOCK:
            is_short = len(self._ends) >= _BLOCK and now - self._last_end < _SHORT_BLOCK
            self._look()
            if is_short and (self._window is None or self._window.may_skip):
                self._num_to_skip = _NUM_SKIPPED
                self.trainer.hooked_sess.pause_times()

    def _after_epoch(self) -> None:
        if self._num_to_skip:
            self._end_skip()
        elif self._source is not None:
            self._look()
        self._epoch_seconds = (perf_counter_ns() - self._epoch_begin) / 1e9
        if self._window is not None:
            self._window.pause()

    def _trigger_epoch(self) -> None:
        if self._window is not None and self._window.steps.seconds >= self._after * (1 - _WARM_UP):
            self._say()
        if self._channel is not None:
            self._compare_ranks()

    def _look(self) -> None:
        """Take the times of the last steps; begin to measure after the warm-up; say the first verdict."""
        self._next_look = perf_counter_ns() + self._look_interval
        runs, waits = self._take_times()
        ends, self._ends = self._ends, []
        if not ends:
            return
        begin, self._last_end = self._last_end, ends[-1]
        self._calls_steps += len(ends)
        if self._window is not None:
            self._window.steps.add(ends, runs, waits)
            if self._last is None and self._window.steps.seconds >= self._after * (1 - _WARM_UP):
                self._window.pause()
                self._say()
                self._window.resume()
                self._window.steps.set_end(self._last_end)
        else:
            self._steps_seen += (self._last_end - begin) / 1e9
            if self._steps_seen >= self._after * _WARM_UP:
                self._window = _Window(self._source)
                self._window.steps.set_end(self._last_end)

    def _end_skip_if_due(self) -> None:
        """Measure again if enough steps were skipped, or if they take so long that they may have become slow."""
        if not self._num_to_skip or perf_counter_ns() > self._next_look:
            self._end_skip()

    def _end_skip(self) -> None:
        """Count the steps that were not measured, and measure the next ones."""
        num, self._num_to_skip = _NUM_SKIPPED - self._num_to_skip, 0
        begin, self._last_end = self._last_end, perf_counter_ns()
        self._source._count_runs(self.trainer.hooked_sess.resume_times(), begin)
        self._calls_steps += num
        if self._window is not None:
            self._window.skip(num, self._last_end)
        else:
            self._steps_seen += (self._last_end - begin) / 1e9
        self._next_look = self._last_end + self._look_interval

    def _take_times(self) -> tuple[RunTimes, np.ndarray | None]:
        """Return the times of the runs since the last call, and how long each of them waited."""
        runs = self.trainer.hooked_sess.take_times()
        return runs, self._source._waited(runs)

    def _say(self) -> None:
        window = self._window
        assert window is not None, "bug: nothing was measured"
        facts = window.facts(self._epoch_seconds, self.trainer.epoch_seconds, self._mean_calls())
        facts = facts._replace(is_alone=self._channel is None)
        verdict = judge(facts)
        self._summary = summarize(facts, verdict)
        is_new = self._last is None or verdict.limit not in (self._last.limit, VARIES)
        if is_new and verdict.limit == CALLBACKS and self._calls is None:
            trainer: Any = self.trainer
            self._calls = CallTimes([trainer._callbacks, trainer.hooked_sess])
            self._calls_steps = 0
            return  # the next look says it, with their names
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
        self._window = _Window(self._source)

    def _compare_ranks(self) -> None:
        """Say on the chief for which rank the others wait, if it is another one than before."""
        summaries = self._channel.gather("the speeds of the ranks", self._summary)
        slowest = None if summaries is None else describe_slowest(summaries)
        if slowest is not None and slowest.rank != self._slowest:
            self._slowest = slowest.rank
            logger.info(f"Speed: {slowest.text}")
            write_note("speed of ranks", slowest.text, rank=slowest.rank)

    def _mean_calls(self) -> list[tuple[str, float]] | None:
        """Return the seconds of each method of a callback in a step, the largest first; None if not measured."""
        if self._calls is None or not self._calls_steps:
            return None
        means = [(name, seconds / self._calls_steps) for name, seconds in self._calls.seconds.items()]
        return sorted(means, key=lambda one: -one[1])


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


class _Window:
    """
    The steps, CPU time and stages since it was created, without the time between `pause` and `resume`.

    Args:
        source: the InputSource of the training.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        inner = source
        while isinstance(inner, ProxyInputSource):
            inner = inner._input
        self._is_fed = isinstance(inner, FeedInput)
        self.steps = Steps(is_overlapping=isinstance(source, StagingInput))
        self._skips_are_alike = True
        self._begin = self._take()
        self._cpu = CpuTimes(0.0, 0.0, 0.0)
        self.resume()

    @property
    def may_skip(self) -> bool:
        """Whether steps have been measured, and steps that were skipped were like them."""
        return self._skips_are_alike and self.steps.num_steps > 0

    def skip(self, num: int, end: int) -> None:
        """Add steps that were not measured; see `Steps.skip`."""
        difference = self.steps.skip(num, end)
        self._skips_are_alike &= 1 / _MAX_DIFFERENCE < difference < _MAX_DIFFERENCE

    def resume(self) -> None:
        """Measure CPU time again."""
        self._cpu_begin = cpu_times()

    def pause(self) -> None:
        """Do not count the CPU time from here on."""
        self._cpu = self._cpu.plus(cpu_times() - self._cpu_begin)

    def facts(
        self, epoch: float, between: list[tuple[str, float]], calls: list[tuple[str, float]] | None
    ) -> Facts:
        """Return what is known. Call it after `pause`."""
        division = self.steps.division(self._is_fed)
        graph, is_seen = self.steps.graph_interval()
        load = self._load(graph, division.waits) if self._begin is not None else None
        name, quartiles = type(self._source).__name__, self.steps.quartiles()
        return Facts(division, load, is_seen, quartiles, name, self._is_fed, epoch, between, calls)

    def _load(self, graph: float | None, waits: bool) -> Load:
        after = self._take()
        assert after is not None, "bug: the pipeline has gone"
        parts = parts_between(self._begin[0], after[0])
        seconds = self.steps.seconds
        enqueuing = after[1]
        if enqueuing is not None and self._begin[1] is not None and waits:
            parts.insert(0, _enqueuing_part(enqueuing.name, self._begin[1], enqueuing))
        cpu, is_contended = self._cpu.used, self._cpu.is_contended(seconds)
        num, free, count = self.steps.num_steps, available_memory(), parts[0].stages[0].count
        pass_steps = round(self._size() * num / count) if count else None
        return Load(parts, num, seconds, graph, cpu, usable_cores(), is_contended, free, pass_steps)

    def _size(self) -> int:
        """Return the number of datapoints in a pass; 0 if unknown."""
        return int(call_within(1.0, self._source.size) or 0)

    def _take(self) -> Any:
        """Read the meters: (snapshot of the pipeline, reading of the enqueuing thread or None)."""
        meters: list[Meter] = self._source.flow.meters()
        if not meters:
            return None
        enqueuing = meters[0].read() if len(meters) > 1 else None
        snapshot: Snapshot = take_snapshot(meters[-1], meters[1:-1])
        return snapshot, enqueuing


def _enqueuing_part(name: str, before: Any, after: Any) -> Part:
    num = after.count - before.count
    # while training waits for data, the queue has room, so the calls do not wait
    wall = (after.waited_out - before.waited_out) / num if num else None
    stage = Stage(name, 0, num, wall, None, 0.0, after.waited_in - before.waited_in, 0.0)
    return Part(name, HERE, 1, [stage])
