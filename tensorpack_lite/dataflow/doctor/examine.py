"""
Is it the data? Run a pipeline, and report whether it keeps its promises and what limits its speed.

In:  a function that builds a DataFlow.
Out: a `Report`: a finding for each check, and the speed of each stage.

`python -m tensorpack_lite data-check module:function` prints it.
"""

from __future__ import annotations

import itertools
import pickle
import random
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Optional

import numpy as np

from ...utils.utils import enter_worker_stream, fix_rng_seed, make_worker_streams, reset_rng_seed
from ..base import DataFlow
from ..repeat import RepeatedData
from ..runner_thread import MultiThreadRunner
from .datapoint_form import Forms, digest
from .memory_growth import measure_growth
from .picklable import find_unpicklable
from .stage_speed import PipelineSpeed, measure_stages, num_workers, stage_name, walk

__all__ = ["BROKEN", "NOT_CHECKED", "OK", "WARNING", "Finding", "Report", "examine"]

OK, WARNING, BROKEN, NOT_CHECKED = "ok", "warning", "BROKEN", "not checked"

_FEW = 8  # datapoints from which on something can be said about repetitions
_TOO_MUCH_IN_COMMON = 0.6  # independent orders have a quarter in common
_MANY = 200  # datapoints of two runs that are compared


@dataclass(frozen=True)
class Finding:
    """
    What one check found.

    Attributes:
        check: its name.
        status: OK, WARNING (surprises some users; nothing is promised), BROKEN (a promise) or NOT_CHECKED.
        text: what was seen, and what to do about it.
    """

    check: str
    status: str
    text: str


@dataclass
class Report:
    """
    What is known of a pipeline.

    Attributes:
        findings: of the checks, in the order in which they ran.
        speed: of the pipeline and its stages; None when it did not run.
    """

    findings: list[Finding] = field(default_factory=list)
    speed: Optional[PipelineSpeed] = None

    @property
    def broken(self) -> list[Finding]:
        """The findings that break a promise."""
        return [finding for finding in self.findings if finding.status == BROKEN]

    def __getitem__(self, check: str) -> Finding:
        """Give the finding of a check; KeyError if it did not run."""
        findings = {finding.check: finding for finding in self.findings}
        if check not in findings:
            raise KeyError(f"{check!r} is no check that ran; these did: {', '.join(findings)}.")
        return findings[check]


def examine(build: Callable[[], DataFlow], seconds: float = 3.0, size: int = 2000, seed: int = 7) -> Report:
    """
    Build a pipeline several times, run it, and report.

    Args:
        build: makes the pipeline, a new one at each call, without resetting it.
        seconds: how long each check may run, about; > 0.
        size: how many datapoints each check looks at, at most; >= 1.
        seed: for `fix_rng_seed`; no seed is fixed afterwards.

    Returns:
        The report. An exception of the pipeline is a finding, too.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> report = examine(lambda: BatchData(FakeData([[28, 28], []]), 32), seconds=0.1)
        >>> report["length"].status
        'ok'

    Note:
        Runners and maps of the pipeline start their workers, several times one after the other. A pass that takes longer
        than `seconds`, or has more than `size` datapoints, is not counted to its end.
    """
    if seconds <= 0 or size < 1:
        raise ValueError(f"examine: seconds must be > 0 and size >= 1, got {seconds} and {size}.")
    doctor, report = _Doctor(build, seconds, size, seed), Report()
    checks: dict[str, Callable[[], tuple[str, str]]] = {
        "first datapoint": doctor.first_datapoint,
        "length": doctor.length,
        "dtype and shape": doctor.form,
        "determinism": doctor.determinism,
        "duplicates": doctor.duplicates,
        "pickling": doctor.pickling,
        "memory": doctor.memory,
    }
    name = ""
    try:
        for name, check in checks.items():
            report.findings.append(Finding(name, *check()))
            if report["first datapoint"].status == BROKEN:
                return report
        name = "speed"
        if doctor.can_repeat:
            report.speed = measure_stages(build, seconds, size)
    except Exception as error:  # noqa: BLE001 (whatever the user's pipeline raises is what the check found)
        report.findings.append(Finding(name, BROKEN, _describe(error)))
    return report


def _describe(error: Exception) -> str:
    """Say what the pipeline raised, and where."""
    while isinstance(error.__cause__, Exception) and error.__cause__.__traceback__:
        error = error.__cause__  # in a worker
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"the pipeline raised {type(error).__name__}: {error} ({frame.filename}:{frame.lineno}, in {frame.name})"


class _Doctor:
    """The checks. Each builds a pipeline of its own."""

    def __init__(self, build: Callable[[], DataFlow], seconds: float, size: int, seed: int) -> None:
        self.build, self.seconds, self.size, self.seed = build, seconds, size, seed
        self._forms = Forms()
        self.can_repeat = True  # until a second pass is empty

    def first_datapoint(self) -> tuple[str, str]:
        """The first datapoint comes."""
        flow = self.build()
        if not isinstance(flow, DataFlow):
            return BROKEN, f"the function returned {type(flow).__name__}, which is no DataFlow."
        begin = time.perf_counter()
        flow.reset_state()
        for datapoint in flow:
            took = time.perf_counter() - begin
            return OK, f"the first datapoint, a {type(datapoint).__name__}, came after {took:.2g} s."
        return BROKEN, "a pass gave no datapoint at all. Is the data where the pipeline looks for it?"

    def length(self) -> tuple[str, str]:
        """`len` tells how many datapoints a pass has, and there can be several passes."""
        flow = self._ready()
        first, first_ended = self._count(flow)
        second, second_ended = self._count(flow) if first_ended else (0, False)
        both_ended = first_ended and second_ended
        self.can_repeat = not (both_ended and second == 0)
        try:
            length = len(flow)
        except NotImplementedError:
            if both_ended and first != second:
                return WARNING, f"unknown; the first pass had {first} datapoints, the second {second}."
            return (
                OK,
                "unknown. Training needs `steps_per_epoch` then, and InferenceRunner a FixedSizeData around it.",
            )
        if first_ended and (first != length or (second_ended and second != length)):
            number = "first" if first != length else "second"
            return (
                BROKEN,
                f"len() says {length}, but the {number} pass had {first if first != length else second} datapoints. "
                f"InferenceRunner trusts len(): correct `__len__`, or put a FixedSizeData around the pipeline.",
            )
        if first_ended:
            return (
                OK,
                f"len() says {length}, and {'two passes' if second_ended else 'a pass'} had that.",
            )
        if first > length:
            return (
                WARNING,
                f"len() says {length}, but a pass goes on after that, perhaps for ever. Training is fine with it; for "
                f"InferenceRunner put a FixedSizeData around the pipeline.",
            )
        return (
            NOT_CHECKED,
            f"len() says {length}; {first} datapoints came in the time given (--size, --seconds).",
        )

    def form(self) -> tuple[str, str]:
        """Datapoints have the same components, dtypes and shapes."""
        broken, drifting = self._forms.changes(), self._forms.shape_changes()
        if broken:
            return BROKEN, "; ".join(broken) + ". A batch and a graph want one kind only."
        if drifting:
            text = (
                "; ".join(drifting) + ". Fine for single images; BatchData and static shapes want one shape."
            )
            return WARNING, text
        return OK, f"{self._forms.count} datapoints of [{self._forms.describe()}]."

    def determinism(self) -> tuple[str, str]:
        """The same seed gives the same datapoints."""
        try:
            first = self._seeded_digests()
            second = self._seeded_digests()
        finally:
            reset_rng_seed()
        number = min(len(first), len(second))
        first, second = first[:number], second[:number]
        if first == second:
            return (
                OK,
                f"two runs after fix_rng_seed({self.seed}) gave the same {number} datapoints.",
            )
        if sorted(first) == sorted(second):
            text = "two runs with one seed gave the same datapoints in another order, as several workers do."
            return WARNING, text
        if any(num_workers(stage) > 1 for stage in walk(self.build())) and self._serial_is_deterministic():
            text = (
                "two runs with one seed differ, because several workers deliver in the order in which they get ready; what "
                "one worker does is the same each time."
            )
            return WARNING, text
        where = next(k for k in range(number) if first[k] != second[k])
        text = (
            f"two runs after fix_rng_seed({self.seed}) differ from datapoint {where} on. Draw random numbers from `self.rng` "
            f"of an RNGDataFlow or from `get_rng()`, never from np.random or random; and sort what comes from a directory "
            f"or a set."
        )
        return BROKEN, text

    def duplicates(self) -> tuple[str, str]:
        """Workers that each run the whole pipeline yield different datapoints."""
        runners = [stage for stage in walk(self.build()) if _runs_copies(stage)]
        if not runners:
            return OK, "no stage runs the data in several workers."
        several, name = num_workers(runners[0]), stage_name(runners[0])
        streams, global_states = make_worker_streams(2), (np.random.get_state(), random.getstate())
        seen = []
        try:
            for index, stream in enumerate(streams):
                if not isinstance(runners[0], MultiThreadRunner):  # a process begins with a copy of these
                    np.random.set_state(global_states[0])
                    random.setstate(global_states[1])
                enter_worker_stream(stream)
                stage = next(stage for stage in walk(self.build()) if _runs_copies(stage))
                seen.append(self._take_digests(_copy_of(stage, index), self.size))
        finally:
            reset_rng_seed()
        window = min(map(len, seen)) // 4  # of a pass in random order, first quarters share few datapoints
        if window < _FEW:
            return NOT_CHECKED, f"{4 * window} datapoints are too few to tell."
        one, other = set(seen[0][:window]), set(seen[1][:window])
        common = len(one & other) / len(one)
        if common > _TOO_MUCH_IN_COMMON:
            text = (
                f"the {several} workers of {name} each run all of the data, and {common:.0%} of the first {window} datapoints "
                f"are the same in two of them. Shuffle or augment inside, with `self.rng`; or use one worker, or a map."
            )
            return BROKEN, text
        return OK, f"the {several} workers of {name} yield different datapoints."

    def pickling(self) -> tuple[str, str]:
        """It can be sent to a worker that is spawned."""
        flow = self.build()
        try:
            size = len(pickle.dumps(flow))
        except Exception as error:  # noqa: BLE001 (pickle and users' classes raise what they like)
            culprit = find_unpicklable(flow)
            text = (
                f"{culprit} cannot be pickled ({error}). Workers that are forked do without; for spawn, and on macOS and "
                f"Windows, use functions of a module instead of lambdas, and open files in reset_state."
            )
            return WARNING, text
        megabytes = size / 1e6
        if megabytes > 100:
            text = f"each spawned worker is sent {megabytes:.0f} MB. Keep file names in the pipeline and read in __iter__."
            return WARNING, text
        return OK, f"it can be sent to spawned workers ({megabytes:.2g} MB)."

    def memory(self) -> tuple[str, str]:
        """Its memory does not grow."""
        if not self.can_repeat:
            return NOT_CHECKED, "a second pass gives nothing."
        flow = self._ready()
        _, first_ended = self._count(flow)
        growth = measure_growth(RepeatedData(flow, -1), self.seconds)
        if growth is None:
            return NOT_CHECKED, "too few datapoints in the time given (--seconds)."
        if not growth.grows:
            return OK, f"flat over {growth.count} datapoints ({growth.megabytes:.0f} MB with workers)."
        text = (
            f"grew by {growth.grown_megabytes:.0f} MB over {growth.count} datapoints, "
            f"{1e3 * growth.grown_megabytes / growth.count:.3g} kB each, workers included."
        )
        if first_ended:
            return (
                BROKEN,
                text + " Something keeps datapoints: a list, a cache without a limit, a log?",
            )
        return (
            WARNING,
            text + " A cache may still be filling; let a whole pass fit (--size, --seconds).",
        )

    def _ready(self) -> DataFlow:
        return _reset(self.build())

    def _count(self, flow: DataFlow) -> tuple[int, bool]:
        """Iterate a pass; gives how many datapoints came, and whether it ended within the limits."""
        begin, count = time.perf_counter(), 0
        for datapoint in flow:
            self._forms.add(datapoint)
            count += 1
            if count >= self._limit(flow) or time.perf_counter() - begin > self.seconds:
                return count, False
        return count, True

    def _limit(self, flow: DataFlow) -> int:
        try:
            return min(self.size, 2 * len(flow) + _FEW)
        except NotImplementedError:
            return self.size

    def _take_digests(self, datapoints: Iterable[Any], count: int) -> list[bytes]:
        """The first datapoints in short, as many as come in time."""
        begin, found = time.perf_counter(), []
        for datapoint in itertools.islice(datapoints, count):
            found.append(digest(datapoint))
            if time.perf_counter() - begin > self.seconds:
                break
        return found

    def _seeded_digests(self) -> list[bytes]:
        fix_rng_seed(self.seed)
        return self._take_digests(self._ready(), min(self.size, _MANY))

    def _serial_is_deterministic(self) -> bool:
        """Whether it is the order of the workers alone that differs: what a single one does repeats itself."""
        runs = []
        for _ in range(2):
            fix_rng_seed(self.seed)
            stage = next(stage for stage in walk(self.build()) if num_workers(stage) > 1)
            runs.append(self._take_digests(_copy_of(stage), min(self.size, _MANY)))
        number = min(map(len, runs))
        return runs[0][:number] == runs[1][:number]


def _reset(flow: Any) -> Any:
    flow.reset_state()
    return flow


def _runs_copies(stage: Any) -> bool:
    """Whether each of several workers of a stage runs all of the data."""
    return num_workers(stage) > 1 and not hasattr(stage, "map_func")


def _copy_of(stage: Any, index: int = 0) -> Any:
    """The DataFlow that a worker of a runner runs, or that a map with workers pulls from."""
    return _reset(stage.dataflows[index] if isinstance(stage, MultiThreadRunner) else stage.ds)
