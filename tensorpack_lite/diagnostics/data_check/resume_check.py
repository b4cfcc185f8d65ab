"""
Check of exact resume: whether a pipeline that is cut and restored in a new process yields the datapoints that were due.

In:  a function that builds a DataFlow.
Out: a `ResumeCheck` with the level of each stage and a finding for each check.

`tensorpack-lite resume-check module:function` prints it.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
import statistics
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ...dataflow.base import DataFlow, Datapoint
from ...dataflow.exact.parallel_map import global_states
from ...dataflow.exact.stage_position import ResumeReport
from ...dataflow.meter import stage_name
from ...utils.packed_state import pack_state, unpack_state
from .datapoint_form import digest
from .examine import BROKEN, OK, WARNING, Finding
from .stage_speed import count_pass, take, walk

_GET_STATE_SECONDS = 5e-3  # training waits as long as this about once per second
_NUM_LATER_PASSES = 2
_NUM_TO_DRAW = 100  # datapoints during which the global random generators must not change
_CONTEXT = multiprocessing.get_context("spawn")

Digests = Tuple[Tuple[object, bytes], ...]  # (name or number, digest) of each component of a datapoint


@dataclass
class ResumeCheck:
    """
    Results for a pipeline.

    Attributes:
        seed: the seed of the random cuts.
        stages: how each stage is resumed.
        findings: results of the checks, in the order in which they ran.
    """

    seed: int
    stages: Sequence[ResumeReport] = ()
    findings: List[Finding] = field(default_factory=list)


class _StageFactory(NamedTuple):
    """A stage of a pipeline; 0 is the whole pipeline. Can be sent to a new process if `build` can."""

    build: Callable[[], DataFlow]
    number: int = 0

    def make(self) -> DataFlow:
        return next(itertools.islice(walk(self.build()), self.number, None))


class _Cut(NamedTuple):
    """A position: after some datapoints of a pass, which is counted from 0."""

    number: int
    taken: int

    def __str__(self) -> str:
        return f"{self.taken} datapoints of pass {self.number + 1}"


class _Restored(NamedTuple):
    """Result of a new process: the digests of the passes after a cut, and the time until their first datapoint."""

    passes: List[List[Digests]]
    seconds: float


@dataclass
class _Run:
    """
    An uninterrupted run of a stage.

    Attributes:
        is_whole: whether its passes came to their end within the limits.
        passes: the digests of each pass.
        states: packed states of the cuts that were reached.
        seconds: durations of `get_state`.
    """

    is_whole: bool
    report: Sequence[ResumeReport] = ()
    passes: List[List[Digests]] = field(default_factory=list)
    states: Dict[_Cut, bytes] = field(default_factory=dict)
    seconds: List[float] = field(default_factory=list)

    def due(self, cut: _Cut) -> List[List[Digests]]:
        """Return the datapoints after a cut, of its pass and of the later ones."""
        passes = self.passes[cut.number : cut.number + 1 + _NUM_LATER_PASSES]
        return [passes[0][cut.taken :], *passes[1:]] if passes else [[]]


def check_resume(
    build: Callable[[], DataFlow],
    num_cuts: int = 3,
    size: int = 1000,
    seconds: float = 10.0,
    seed: Optional[int] = None,
) -> ResumeCheck:
    """
    Cut a pipeline at several positions, restore each in a new process, and compare the datapoints that follow.

    The positions are 0, 1, the last two and the end of the first pass, and random ones. The rest of the pass
    and two more passes are compared.

    Args:
        build: returns a new pipeline at each call, without resetting it. It is pickled for the new processes.
        num_cuts: number of random positions, in the first two passes; >= 0.
        size, seconds: a pass with more datapoints, or that takes longer, is compared only up to there; its
            end and later passes are then not checked.
        seed: chooses the random positions; None draws a seed.

    Returns:
        The results. An exception of the pipeline is also a finding.

    Raises:
        ValueError: a number is out of range.
    """
    if num_cuts < 0 or size < 1 or seconds <= 0:
        raise ValueError(
            "check_resume: a number is out of range (expected num_cuts >= 0, size >= 1 and seconds > 0, got "
            f"{num_cuts}, {size} and {seconds})."
        )
    result = ResumeCheck(random.SystemRandom().randrange(10**6) if seed is None else seed)
    doctor = _Doctor(build, num_cuts, size, seconds, result.seed)
    try:
        doctor.examine(result)
    except Exception as error:  # noqa: BLE001 (users' classes may raise anything)
        result.findings.append(Finding("pipeline", BROKEN, f"it raised {_describe(error)}"))
    return result


class _Doctor:
    """The checks of a pipeline."""

    def __init__(self, build: Callable[[], DataFlow], num_cuts: int, size: int, seconds: float, seed: int) -> None:
        self._build, self._num_cuts = build, num_cuts
        self._size, self._seconds, self._seed = size, seconds, seed

    def examine(self, result: ResumeCheck) -> None:
        """Run all checks."""
        stage = _StageFactory(self._build)
        run = self._run(stage)
        result.stages = run.report
        result.findings.append(_check_levels(run.report))
        drawing = self._find_global_draws()
        if not run.passes[0]:
            result.findings.append(Finding("datapoints", BROKEN, "a pass yielded no datapoint."))
            return
        restore_seconds: List[float] = []
        difference = _find_difference(stage, run, restore_seconds)
        if difference is None:
            result.findings.append(Finding("datapoints", OK, _describe_run(run)))
        else:
            suspect = f"{drawing}." if drawing else self._find_suspect()
            result.findings.append(Finding("datapoints", BROKEN, f"{difference} Suspect {suspect}"))
        result.findings += [_check_global_draws(drawing), *_check_costs(run, restore_seconds)]

    def _run(self, stage: _StageFactory) -> _Run:
        """Iterate over a stage without interruption, and take states at cuts."""
        flow = stage.make()
        flow.reset_state()
        length, is_whole = count_pass(flow, self._size, self._seconds)
        run, cuts = _Run(is_whole), self._choose_cuts(length, is_whole)
        flow = stage.make()
        flow.set_state(None)
        flow.reset_state()
        run.report = flow.resume_report()
        for number in range(2 + _NUM_LATER_PASSES if is_whole else 1):
            _take_state(flow, run, _Cut(number, 0), cuts)
            digests: List[Digests] = []
            run.passes.append(digests)
            for datapoint in itertools.islice(flow, None if is_whole else length):
                digests.append(_digests(datapoint))
                _take_state(flow, run, _Cut(number, len(digests)), cuts)
        return run

    def _choose_cuts(self, length: int, is_whole: bool) -> set[_Cut]:
        generator = random.Random(self._seed)
        cuts = {_Cut(0, 0), _Cut(0, 1)}
        if is_whole:
            cuts |= {_Cut(0, length - 1), _Cut(0, length), _Cut(1, 0)}
        for _ in range(self._num_cuts):
            cuts.add(_Cut(generator.randrange(2) if is_whole else 0, generator.randrange(max(1, length))))
        return cuts

    def _find_suspect(self) -> str:
        """Return the innermost stage that differs after a cut when it is restored alone, with a question."""
        before = global_states()
        self._build()
        if global_states() != before:
            return "the function that builds the pipeline, because it draws from `random` or `numpy.random`."
        name = self._find_innermost(lambda stage: _find_difference(stage, self._run(stage), []) is not None)
        return f"{name}: does it read a clock, or change an attribute that is not one of its `state_attributes`?"

    def _find_global_draws(self) -> str:
        """Return the innermost stage that draws from the global random generators; "" if none does."""
        if not self._draws_globally(_StageFactory(self._build)):
            return ""
        return self._find_innermost(self._draws_globally)

    def _find_innermost(self, is_suspect: Callable[[_StageFactory], bool]) -> str:
        """Return the name of the innermost stage that meets a condition; that of the outermost one if none does."""
        stages = list(walk(self._build()))
        found = (i for i in range(len(stages) - 1, 0, -1) if is_suspect(_StageFactory(self._build, i)))
        return stage_name(stages[next(found, 0)])

    def _draws_globally(self, stage: _StageFactory) -> bool:
        flow = stage.make()
        before = global_states()
        flow.reset_state()
        for _ in take(flow, _NUM_TO_DRAW, self._seconds):
            pass
        return global_states() != before


def _take_state(flow: DataFlow, run: _Run, cut: _Cut, cuts: set[_Cut]) -> None:
    if cut in cuts:
        begin = time.perf_counter()
        state = flow.get_state()
        run.seconds.append(time.perf_counter() - begin)
        run.states[cut] = pack_state(state, "resume-check")


def _find_difference(stage: _StageFactory, run: _Run, seconds: List[float]) -> Optional[str]:
    """Restore each cut; return a sentence about the first difference. Add the times that restoring took to `seconds`."""
    for cut, state in sorted(run.states.items()):
        due = run.due(cut)
        restored = _restore_in_new_process(stage, state, [len(part) for part in due], run.is_whole)
        if isinstance(restored, str):
            return f"Restored after {cut}, {restored}"
        seconds.append(restored.seconds)
        for number, (expected, found) in enumerate(zip(due, restored.passes)):
            begin = cut.taken if number == 0 else 0
            difference = _compare(expected, found, begin)
            if difference is not None:
                return f"Restored after {cut}, {difference} of pass {cut.number + number + 1}."
    return None


def _compare(expected: List[Digests], found: List[Digests], begin: int) -> Optional[str]:
    for index, (due, got) in enumerate(zip(expected, found), begin + 1):
        if due != got:
            names = [str(name) for (name, digest), (_, new) in zip(due, got) if digest != new]
            return f"component {', '.join(names) or 'number'} differs in datapoint {index}"
    if len(expected) != len(found):
        more = "more than" if len(found) > len(expected) else f"{begin + len(found)} instead of"
        return f"there are {more} the {begin + len(expected)} datapoints"
    return None


def _restore_in_new_process(stage: _StageFactory, state: bytes, counts: List[int], is_whole: bool) -> _Restored | str:
    """Return the digests of the datapoints after a cut, or a sentence about an error."""
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_restore, args=(stage, state, counts, is_whole, sender))
    process.start()  # not a daemon, because the pipeline may start workers
    sender.close()
    try:
        return receiver.recv()  # type: ignore[no-any-return]
    except EOFError:
        process.join()
        return f"the new process ended with exit code {process.exitcode}."
    finally:
        receiver.close()
        process.join()


def _restore(stage: _StageFactory, state: bytes, counts: Sequence[int], is_whole: bool, sender: Connection) -> None:
    """Send the datapoints after a position. It runs in a new process."""
    try:
        flow = stage.make()
        begin = time.perf_counter()
        flow.set_state(unpack_state(state, "resume-check").state)
        flow.reset_state()
        passes: List[List[Digests]] = []
        seconds = 0.0
        for count in counts:
            passes.append([])
            # one more shows a pass that is too long
            for datapoint in itertools.islice(flow, count + is_whole):
                seconds = seconds or time.perf_counter() - begin
                passes[-1].append(_digests(datapoint))
        sender.send(_Restored(passes, seconds))
    except Exception as error:  # noqa: BLE001 (users' classes may raise anything; the other process reports it)
        sender.send(f"it raised {_describe(error)}")


def _digests(datapoint: Datapoint) -> Digests:
    components: Any = datapoint if isinstance(datapoint, (dict, list, tuple)) else [datapoint]
    items: Iterator[Any] = iter(components.items()) if isinstance(components, dict) else enumerate(components)
    return tuple((name, digest([component])) for name, component in items)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _describe_run(run: _Run) -> str:
    cuts = sorted(run.states)
    passes = [[str(cut.taken) for cut in cuts if cut.number == number] for number in (0, 1)]
    where = " and ".join(f"{', '.join(taken)} of pass {i + 1}" for i, taken in enumerate(passes) if taken)
    if run.is_whole:
        compared = "The rest of the pass and two more passes were the same."
    else:
        compared = (
            f"The datapoints up to {len(run.passes[0])} were the same. The end of the pass and later passes were not compared "
            "(--size, --seconds)."
        )
    return f"restored in {len(cuts)} new processes, after datapoints {where}. {compared}"


def _check_levels(reports: Sequence[ResumeReport]) -> Finding:
    names = list(dict.fromkeys(report.stage for report in reports if report.level == "none"))
    if not names:
        return Finding("levels", OK, "every stage can be resumed.")
    return Finding("levels", WARNING, f'{", ".join(names)} cannot be resumed exactly; exact="require" refuses it.')


def _check_global_draws(name: str) -> Finding:
    if not name:
        return Finding("global random", OK, "no stage draws from `random` or `numpy.random` in this process.")
    return Finding(
        "global random",
        WARNING,
        f"{name} draws from `random` or `numpy.random`, whose states are not part of the position. Draw from `self.rng` of an "
        "RNGDataFlow instead, or from a generator that `get_rng()` returns in `reset_state`.",
    )


def _check_costs(run: _Run, restore_seconds: Sequence[float]) -> Iterator[Finding]:
    kilobytes = max(map(len, run.states.values())) / 1e3
    yield Finding("size", OK, f"a state has at most {kilobytes:.1f} kB, as in a `.state` file.")
    seconds = statistics.median(run.seconds)
    text = f"took {1e3 * seconds:.2g} ms (median of {len(run.seconds)}; budget {1e3 * _GET_STATE_SECONDS:.0f} ms)."
    yield Finding("get_state", OK if seconds <= _GET_STATE_SECONDS else WARNING, text)
    if restore_seconds:
        slowest = max(restore_seconds)
        yield Finding("restore", OK, f"the next datapoint came at most {slowest:.2g} s after `set_state`.")
