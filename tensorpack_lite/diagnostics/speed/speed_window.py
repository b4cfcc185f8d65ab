"""A period of a training in which its speed is measured."""

from __future__ import annotations

from array import array
from time import perf_counter_ns
from typing import Any, Callable, Sequence

import numpy as np

from ...dataflow.meter import Meter
from ...input_source.base import ProxyInputSource
from ...input_source.feed import FeedInput
from ...input_source.queueing import QueueInput
from ...input_source.staging import StagingInput
from ...input_source.waiting import QueueWaits
from ...loop.observer import RunObserver
from ...loop.state import TrainLoop
from ...loop.step import Step
from ...utils.cores import usable_cores
from ...utils.inspection import call_within
from ...utils.memory import available_memory
from .bottleneck import Load
from .cores import CpuTimes, cpu_times
from .pipeline_load import HERE, Part, Readings, StageWork, parts_between, read_pipeline
from .speed_verdict import Facts
from .step_division import Division, Steps

_NUM_RUNS = 200  # that suffice for a verdict
_MAX_LENGTH = 5  # times the shortest one, with fewer runs


class SpeedWindow(RunObserver):
    """
    The steps, CPU time and stages of a period, without the time between two epochs.

    It begins with the next run, and again with the next run after `pause`.

    Args:
        source: the InputSource of the training.
        loop: its counters.
        seconds: length of the period. It is up to five times as long if steps are slow.
        on_end: called without arguments at its end, between two steps, while the session is about to run the next one.
    """

    def __init__(self, source: Any, loop: TrainLoop, seconds: float, on_end: Callable[[], None]) -> None:
        self._source, self._loop, self._length, self._on_end = source, loop, seconds, on_end
        self._inner = source
        while isinstance(self._inner, ProxyInputSource):
            self._inner = self._inner._input
        self._steps = Steps(is_overlapping=isinstance(source, StagingInput))
        self._cpu = CpuTimes(0.0, 0.0, 0.0)
        self._begin: Any = None
        self._runs: _Runs | None = None

    @property
    def num_steps(self) -> int:
        """Number of steps that were measured until `pause` was called."""
        return self._steps.num_steps

    @property
    def is_sufficient(self) -> bool:
        """Whether its steps suffice for a verdict."""
        return self.num_steps > 0 and self._steps.seconds >= self._length

    def begin_run(self, step: Step) -> None:
        """Begin or end the period, if it is time; note when a run begins."""
        runs = self._runs
        if runs is None:
            runs = self._runs = self._resume()
        now = perf_counter_ns()
        if now >= runs.due and self._is_over(now):
            self.pause(now)
            self._on_end()
        else:
            runs.begin = now

    def end_run(self, step: Step, succeeded: bool) -> None:
        """Note a run that has succeeded."""
        runs = self._runs
        if runs is not None and succeeded:
            runs.started.append(runs.begin)
            runs.ended.append(perf_counter_ns())
            runs.numbers.append(self._loop.local_step)
            runs.steps.append(step)

    def pause(self, now: int | None = None) -> None:
        """Measure no more until the next run. Call it between two steps, while there is a default session."""
        runs, self._runs = self._runs, None
        if runs is None:
            return
        self._cpu = self._cpu.plus(cpu_times() - runs.cpu)
        started, ended = np.array(runs.started), np.array(runs.ended)
        waits = None if runs.waits is None else runs.waits.waited(started, ended, runs.steps)
        if len(started):
            end = perf_counter_ns() if now is None else now
            self._steps.add(started, ended, np.array(runs.numbers), end, waits)

    def facts(
        self, epoch: float, between: Sequence[tuple[str, float]], calls: Sequence[tuple[str, float]] | None
    ) -> Facts:
        """Return what is known, if it is sufficient."""
        division, (graph, is_seen) = self._steps.division(), self._steps.graph_interval()
        parts, is_fed = self._parts(division.waits), isinstance(self._inner, FeedInput)
        if is_fed:
            division = _with_reading(division, parts[0], self.num_steps)
            graph = None if division.waiting is None else division.total - division.waiting
        load = self._load(parts, graph) if parts else None
        name, quartiles = type(self._source).__name__, self._steps.quartiles()
        return Facts(division, load, is_seen, quartiles, name, is_fed, epoch, between, calls)

    def _resume(self) -> _Runs:
        if self._begin is None:
            self._begin = self._take()
        waits = QueueWaits(self._inner) if isinstance(self._inner, QueueInput) else None
        due = perf_counter_ns() + int(1e9 * (self._length - self._steps.seconds))
        return _Runs(waits, due)

    def _is_over(self, now: int) -> bool:
        runs: Any = self._runs
        if not runs.numbers or runs.numbers[-1] == self._loop.local_step:
            return False
        has_enough = self.num_steps + len(runs.numbers) >= _NUM_RUNS
        return has_enough or now >= runs.due + int(1e9 * (_MAX_LENGTH - 1) * self._length)

    def _parts(self, waits: bool) -> list[Part]:
        """Return what the parts of the pipeline have done; empty if there is none."""
        if self._begin is None:
            return []
        (before, enqueued_before), (after, enqueued) = self._begin, self._take()
        parts = parts_between(before, after)
        if waits and enqueued is not None and enqueued_before is not None:
            parts.insert(0, _enqueuing_part(enqueued.name, enqueued_before, enqueued))
        return parts

    def _load(self, parts: Sequence[Part], graph: float | None) -> Load:
        seconds, num, count = self._steps.seconds, self.num_steps, parts[0].stages[0].count
        cpu, is_contended = self._cpu.used, self._cpu.is_contended(seconds)
        pass_steps = round(self._size() * num / count) if count else None
        free = available_memory()
        return Load(parts, num, seconds, graph, cpu, usable_cores(), is_contended, free, pass_steps)

    def _size(self) -> int:
        """Return the number of datapoints in a pass; 0 if unknown."""
        return int(call_within(1.0, self._source.size) or 0)

    def _take(self) -> Any:
        """Read the meters: (readings of the pipeline, reading of the enqueuing thread or None)."""
        meters: list[Meter] = self._source.flow.meters()
        if not meters:
            return None
        enqueuing = meters[0].read() if len(meters) > 1 else None
        readings: Readings = read_pipeline(meters[-1], meters[1:-1])
        return readings, enqueuing


class _Runs:
    """
    Runs without a pause.

    Attributes:
        waits: knows how long they waited; None if they do not take from a queue.
        due: when the period has its shortest length, in nanoseconds.
        cpu: when the first of them began.
        begin: of the present run.
        started, ended: of each run.
        numbers, steps: the number of the step that each run belongs to, and what it ran.
    """

    def __init__(self, waits: QueueWaits | None, due: int) -> None:
        self.waits, self.due, self.cpu = waits, due, cpu_times()
        self.begin = 0
        self.started, self.ended, self.numbers = array("q"), array("q"), array("q")
        self.steps: list[Step] = []


def _with_reading(division: Division, part: Part, num_steps: int) -> Division:
    """Return the division of the steps of a FeedInput, whose training thread reads the data outside of runs."""
    if not part.is_known:
        return division
    waited = sum(stage.waited_in + stage.waited_out for stage in part.stages)
    reading = min((part.busy + waited) / num_steps, division.outside)
    return division._replace(waiting=reading, outside=division.outside - reading)


def _enqueuing_part(name: str, before: Any, after: Any) -> Part:
    num = after.count - before.count
    # while training waits for data, the queue has room, so the calls do not wait
    wall = (after.waited_out - before.waited_out) / num if num else None
    stage = StageWork(name, 0, num, wall, None, 0.0, after.waited_in - before.waited_in, 0.0)
    return Part(name, HERE, 1, [stage])
