"""
Checks of a pipeline: whether it works as the rest of the library expects, and which stage limits its speed.

In:  a function that builds a DataFlow.
Out: a `DataReport` with a finding for each check and the speed of each stage.

`python -m tensorpack_lite data-check module:function` prints the report.
"""

from __future__ import annotations

import pickle
import random
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Optional, TypeVar

import numpy as np

from ...dataflow.base import DataFlow, Datapoint, length_or_none
from ...dataflow.meter import stage_name
from ...dataflow.repeat import RepeatedData, why_empty
from ...dataflow.runner_thread import MultiThreadRunner
from ...utils.random_streams import enter_worker_stream, fix_rng_seed, make_worker_streams, reset_rng_seed
from .datapoint_form import Forms, digest
from .memory_growth import measure_growth
from .picklable import find_unpicklable
from .remarks import Remark
from .stage_speed import PipelineSpeed, count_pass, measure_stages, num_workers, take, walk
from .values import ValueRules

OK, WARNING, BROKEN, NOT_CHECKED = "ok", "warning", "BROKEN", "not checked"

_FEW = 8  # with fewer datapoints, the check for duplicates is skipped
_TOO_MUCH_IN_COMMON = 0.6  # independent orders have a quarter in common
_MANY = 200  # datapoints that are compared between two runs

Flow = TypeVar("Flow", bound=DataFlow)


@dataclass(frozen=True)
class Finding:
    """
    Result of one check.

    Attributes:
        check: name of the check.
        status: OK, BROKEN (a DataFlow must not do this), WARNING (allowed, but it surprises some users) or NOT_CHECKED.
        text: what was observed, and what to do about it.
    """

    check: str
    status: str
    text: str


@dataclass
class DataReport:
    """
    Results for a pipeline.

    Attributes:
        findings: results of the checks, in the order in which they ran.
        speed: speed of the pipeline and its stages; None if it was not measured.
    """

    findings: list[Finding] = field(default_factory=list)
    speed: Optional[PipelineSpeed] = None

    @property
    def broken(self) -> list[Finding]:
        """The findings with status BROKEN."""
        return [finding for finding in self.findings if finding.status == BROKEN]

    def __getitem__(self, check: str) -> Finding:
        """Return the finding of a check; raise KeyError if the check did not run."""
        findings = {finding.check: finding for finding in self.findings}
        if check not in findings:
            raise KeyError(f"DataReport: the check {check!r} did not run (expected one of {', '.join(findings)}).")
        return findings[check]


def examine(build: Callable[[], DataFlow], seconds: float = 3.0, size: int = 2000, seed: int = 7) -> DataReport:
    """
    Build a pipeline several times, run it, and report the results of all checks.

    Args:
        build: returns a new pipeline at each call, without resetting it.
        seconds: approximate time limit of each check; > 0.
        size: maximum number of datapoints for each check; >= 1.
        seed: seed for `fix_rng_seed`. No seed is fixed afterwards.

    Returns:
        The report. An exception of the pipeline is also a finding.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> report = examine(lambda: BatchData(FakeData([[28, 28], []]), 32), seconds=0.1)
        >>> report["pickling"].status
        'ok'

    Note:
        Runners and maps in the pipeline start their workers several times, one time after the other. A pass that takes
        longer than `seconds`, or has more than `size` datapoints, is not counted to its end.
    """
    if seconds <= 0 or size < 1:
        raise ValueError(
            f"examine: a limit is out of range (expected seconds > 0 and size >= 1, got {seconds} and {size})."
        )
    doctor, report = _Doctor(build, seconds, size, seed), DataReport()
    checks: dict[str, Callable[[], tuple[str, str]]] = {
        "first datapoint": doctor.first_datapoint,
        "length": doctor.length,
        "dtype and shape": doctor.form,
        "values": doctor.values,
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
    except Exception as error:  # noqa: BLE001 (an error of the user's pipeline is a finding)
        report.findings.append(Finding(name, BROKEN, _describe(error)))
    return report


def _describe(error: Exception) -> str:
    """Describe an error of the pipeline and where it was raised."""
    origin = error
    while isinstance(origin.__cause__, Exception) and origin.__cause__.__traceback__:
        origin = origin.__cause__  # in a worker thread, or in NumPy
    frame = traceback.extract_tb(origin.__traceback__)[-1]
    return f"the pipeline raised {type(error).__name__}: {error} ({frame.filename}:{frame.lineno}, in {frame.name})"


class _Doctor:
    """The checks. Each builds a new pipeline and returns (status, text). Its docstring states the property that it checks."""

    def __init__(self, build: Callable[[], DataFlow], seconds: float, size: int, seed: int) -> None:
        self.build, self.seconds, self.size, self.seed = build, seconds, size, seed
        self._forms = Forms()
        self.can_repeat = True  # until a second pass is empty

    def first_datapoint(self) -> tuple[str, str]:
        """A pass yields a datapoint."""
        flow = self.build()
        if not isinstance(flow, DataFlow):
            return BROKEN, f"the function returned {type(flow).__name__} (expected a DataFlow)."
        begin = time.perf_counter()
        flow.reset_state()
        for datapoint in flow:
            took = time.perf_counter() - begin
            return OK, f"the first datapoint, a {type(datapoint).__name__}, came after {took:.2g} s."
        reason = why_empty(flow) or "Is the data where the pipeline looks for it?"
        return BROKEN, f"a pass yielded no datapoint. {reason}"

    def length(self) -> tuple[str, str]:
        """`len` is the number of datapoints of a pass, and several passes are possible."""
        flow = _reset(self.build())
        first, first_ended = self._count(flow)
        second, second_ended = self._count(flow) if first_ended else (0, False)
        self.can_repeat = not (second_ended and second == 0)
        length = length_or_none(flow)
        if length is None:
            if second_ended and first != second:
                return WARNING, f"unknown; the first pass had {first} datapoints, the second {second}."
            text = (
                "unknown. Training then needs `steps_per_epoch`, and InferenceRunner needs a FixedSizeData around it."
            )
            return OK, text
        for name, count, has_ended in (("first", first, first_ended), ("second", second, second_ended)):
            if has_ended and count != length:
                return BROKEN, (
                    f"len() says {length}, but the {name} pass had {count} datapoints. InferenceRunner relies on len(): "
                    f"correct `__len__`, or put a FixedSizeData around the pipeline."
                )
        if first_ended:
            passes = "two passes" if second_ended else "a pass"
            return OK, f"len() says {length}, and {passes} had that many."
        if first > length:
            return WARNING, (
                f"len() says {length}, but a pass continues after that, perhaps without end. Training works with it; for "
                f"InferenceRunner, put a FixedSizeData around the pipeline."
            )
        return (
            NOT_CHECKED,
            f"len() says {length}; {first} datapoints came within the limits (--size, --seconds).",
        )

    def form(self) -> tuple[str, str]:
        """Datapoints have the same components, dtypes and shapes."""
        changes, shape_changes = self._forms.changes(), self._forms.shape_changes()
        if changes:
            return BROKEN, "; ".join(changes) + ". Batches and graphs need the same form in every datapoint."
        if shape_changes:
            advice = "Single images may differ; BatchData and static shapes need one shape."
            return WARNING, f"{'; '.join(shape_changes)}. {advice}"
        return OK, f"{self._forms.count} datapoints of [{self._forms.describe()}]."

    def values(self) -> tuple[str, str]:
        """The rules of lint about data find nothing in a pass."""
        flow = _reset(self.build())
        rules, count = ValueRules(length_or_none(flow) or 0), 0
        found: list[Remark] = []
        for datapoint in take(flow, self.size, self.seconds):
            found += rules.feed(datapoint)
            count += 1
        if found:
            return WARNING, " ".join(map(str, found))
        return OK, f"the rules of lint have no remark about {count} datapoints."

    def determinism(self) -> tuple[str, str]:
        """The same seed gives the same datapoints."""
        try:
            first, second = self._run_twice(lambda: _reset(self.build()))
            if first == second:
                return OK, f"two runs after fix_rng_seed({self.seed}) gave the same {len(first)} datapoints."
            if sorted(first) == sorted(second):
                return WARNING, (
                    "two runs with one seed gave the same datapoints in another order, as several workers do."
                )
            if any(map(_has_several_workers, walk(self.build()))):
                first_run, second_run = self._run_twice(lambda: _copy_of(self._find(_has_several_workers)))
                if first_run == second_run:
                    return WARNING, (
                        "two runs with one seed differ, because the order in which several workers deliver varies; the "
                        "datapoints of a single worker are the same in each run."
                    )
        finally:
            reset_rng_seed()
        where = next(k for k in range(len(first)) if first[k] != second[k])
        return BROKEN, (
            f"two runs after fix_rng_seed({self.seed}) differ from datapoint {where} on. Draw random numbers from `self.rng` "
            f"of an RNGDataFlow or from `get_rng()`, never from np.random or random; and sort the entries of directories "
            f"and sets."
        )

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
                if not isinstance(runners[0], MultiThreadRunner):
                    # processes start with a copy of the global states
                    np.random.set_state(global_states[0])
                    random.setstate(global_states[1])
                enter_worker_stream(stream)
                seen.append(self._take_digests(_copy_of(self._find(_runs_copies), index), self.size))
        finally:
            reset_rng_seed()
        window = min(map(len, seen)) // 4  # the first quarters of two random orders share few datapoints
        if window < _FEW:
            return NOT_CHECKED, f"{4 * window} datapoints are too few to tell."
        of_first, of_second = set(seen[0][:window]), set(seen[1][:window])
        common = len(of_first & of_second) / len(of_first)
        if common > _TOO_MUCH_IN_COMMON:
            return BROKEN, (
                f"the {several} workers of {name} each run all of the data, and {common:.0%} of the first {window} datapoints "
                f"are the same in two of them. Shuffle or augment inside, with `self.rng`; or use one worker, or a map."
            )
        return OK, f"the {several} workers of {name} yield different datapoints."

    def pickling(self) -> tuple[str, str]:
        """The pipeline can be sent to a spawned worker."""
        flow = self.build()
        try:
            megabytes = len(pickle.dumps(flow)) / 1e6
        except Exception as error:  # noqa: BLE001 (pickle and users' classes may raise anything)
            return WARNING, (
                f"{find_unpicklable(flow)} cannot be pickled ({error}). Forked workers do not need it; for spawned ones, and "
                f"on macOS and Windows, use functions of a module instead of lambdas, and open files in reset_state."
            )
        if megabytes > 100:
            text = (
                f"each spawned worker is sent {megabytes:.0f} MB. Keep file names in the pipeline and read in __iter__."
            )
            return WARNING, text
        return OK, f"it can be sent to spawned workers ({megabytes:.2g} MB)."

    def memory(self) -> tuple[str, str]:
        """The memory of the pipeline does not grow."""
        if not self.can_repeat:
            return NOT_CHECKED, "a second pass yields no datapoint."
        flow = _reset(self.build())
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
            return BROKEN, f"{text} Does a list, an unlimited cache or a log keep datapoints?"
        return WARNING, f"{text} A cache may still be filling; let a whole pass fit (--size, --seconds)."

    def _count(self, flow: DataFlow) -> tuple[int, bool]:
        """Iterate a pass. Return the number of datapoints, and whether the pass ended within the limits."""
        length = length_or_none(flow)
        limit = self.size if length is None else min(self.size, 2 * length + _FEW)
        return count_pass(flow, limit, self.seconds, self._forms.add)

    def _take_digests(self, datapoints: Iterable[Datapoint], count: int) -> list[bytes]:
        """Return the digests of the first datapoints, as many as come in time."""
        return [digest(datapoint) for datapoint in take(datapoints, count, self.seconds)]

    def _run_twice(self, make: Callable[[], Iterable[Datapoint]]) -> tuple[list[bytes], list[bytes]]:
        """Return equally many digests of two runs with the same seed."""
        runs = []
        for _ in range(2):
            fix_rng_seed(self.seed)
            runs.append(self._take_digests(make(), min(self.size, _MANY)))
        number = min(map(len, runs))
        return runs[0][:number], runs[1][:number]

    def _find(self, condition: Callable[[DataFlow], bool]) -> DataFlow:
        """Build a pipeline and return its first stage that meets a condition."""
        return next(stage for stage in walk(self.build()) if condition(stage))


def _reset(flow: Flow) -> Flow:
    flow.reset_state()
    return flow


def _has_several_workers(stage: DataFlow) -> bool:
    return num_workers(stage) > 1


def _runs_copies(stage: DataFlow) -> bool:
    """Return whether a stage has several workers that each run all of the data."""
    return _has_several_workers(stage) and not hasattr(stage, "map_func")


def _copy_of(stage: Any, index: int = 0) -> DataFlow:
    """Return the DataFlow that a worker of a runner runs, or that a map with workers reads."""
    return _reset(stage.dataflows[index] if isinstance(stage, MultiThreadRunner) else stage.ds)
