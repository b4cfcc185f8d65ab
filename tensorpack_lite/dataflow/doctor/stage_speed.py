"""
Where the time of a pipeline goes: how long each stage takes for a datapoint, without the stages behind it.

In:  a function that builds a pipeline.
Out: its speed as a whole, and of each stage; which one limits.

A pipeline is cut into parts that run at the same time. What the consumer's process does is one part; what a runner does
in its workers is another; the function of a map with workers is a third. Each part is measured alone, in this process,
with a clock between its stages; the workers of a part multiply its speed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Sequence

from ..base import DataFlow, Datapoint, ProxyDataFlow
from ..batch import BatchData
from ..map_and_batch import MultiProcessMapAndBatchDataZMQ
from ..map_engine import ParallelMapData
from ..mapping import MapData
from ..repeat import RepeatedData
from ..runner import MultiProcessRunner, MultiProcessRunnerZMQ
from ..runner_thread import MultiThreadRunner

__all__ = ["PipelineSpeed", "StageSpeed", "measure_stages", "num_workers", "stage_name", "walk"]

_PROCESS_RUNNERS = (MultiProcessRunner, MultiProcessRunnerZMQ, MultiProcessMapAndBatchDataZMQ)
_RUNNERS = (*_PROCESS_RUNNERS, MultiThreadRunner)


@dataclass(frozen=True)
class StageSpeed:
    """
    What was measured of one stage.

    Attributes:
        name: the class and, where there is one, the function: "MapData(resize)".
        place: where it runs: "here", or "in 2 workers of MultiProcessRunnerZMQ".
        depth: how many stages of its part stand between it and the consumer.
        count: datapoints that it gave.
        seconds: its own time, without the stages that it takes its datapoints from.
        share: of the time of its part, 0 to 1.
        num_workers: how many do this at the same time.
        waits: it does nothing itself, but waits for workers; what they do is a part of its own.
    """

    name: str
    place: str
    depth: int
    count: int
    seconds: float
    share: float
    num_workers: int = 1
    waits: bool = False

    @property
    def per_second(self) -> float:
        """Datapoints per second that this stage would give if all others took no time."""
        return self.num_workers * self.count / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class PipelineSpeed:
    """
    What was measured of a pipeline.

    Attributes:
        per_second: datapoints per second at its end, all parts running.
        stages: of all parts; first the consumer's, outermost stage first.
        limit: the stage without which it would be faster: the slowest one of the slowest part.
    """

    per_second: float
    stages: Sequence[StageSpeed]
    limit: StageSpeed


def measure_stages(build: Callable[[], DataFlow], seconds: float, size: int) -> PipelineSpeed:
    """
    Measure a pipeline and its stages.

    Args:
        build: makes the pipeline; called once for each part.
        seconds: how long to measure each part, about; > 0.
        size: or how many datapoints, if that is less time.

    Returns:
        What was measured.

    Raises:
        RuntimeError: the pipeline gives no datapoint.
    """
    here = _Part(build(), "here", 1)
    parts = [(here.run(seconds, size), here.stages())]
    num_cuts = len([stage for stage in walk(build()) if num_workers(stage) > 0])
    for index in range(num_cuts):
        # a pipeline is reset once, so each part is taken out of a new one
        cut = [stage for stage in walk(build()) if num_workers(stage) > 0][index]
        workers = _Part(
            _work_of(cut), f"in {num_workers(cut)} workers of {type(cut).__name__}", num_workers(cut)
        )
        speed, stages = num_workers(cut) * workers.run(seconds, size), workers.stages()
        if isinstance(cut, ParallelMapData):  # its `ds` was measured in the consumer's part
            speed, stages = stages[0].per_second, stages[:1]
        parts.append((speed, stages))
    return PipelineSpeed(parts[0][0], [stage for _, stages in parts for stage in stages], _limit(parts))


def walk(flow: Any) -> Iterator[Any]:
    """
    Go through the stages of a pipeline that run in this process.

    Args:
        flow: the outermost stage.

    Yields:
        Stages, each before those that it takes its datapoints from. What a runner wraps is left out.
    """
    yield flow
    for child in _children(flow):
        yield from walk(child)


def num_workers(stage: Any) -> int:
    """Tell how many workers a stage has; 0 if it works in the process that iterates."""
    if isinstance(stage, ParallelMapData):
        return stage.num_worker
    if isinstance(stage, MultiThreadRunner):
        return stage.num_thread
    return stage.num_proc if isinstance(stage, _PROCESS_RUNNERS) else 0


def stage_name(stage: Any) -> str:
    """Name a stage by its class and its function, as "MapData(resize)"."""
    function = getattr(stage, "map_func", None) or getattr(stage, "func", None)
    function = getattr(function, "func", function)  # of a functools.partial
    name = getattr(function, "__name__", "") if callable(function) else ""
    return type(stage).__name__ + (f"({name})" if name else "")


class _Clocked(ProxyDataFlow):
    """Stands between two stages and measures how long one waits for the other."""

    def __init__(self, ds: Any) -> None:
        self.ds = ds
        self.seconds = 0.0
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        if name == "ds":  # not set yet
            raise AttributeError(name)
        return getattr(self.ds, name)

    def __iter__(self) -> Iterator[Datapoint]:
        clock, source = time.perf_counter, iter(self.ds)
        while True:
            begin = clock()
            try:
                datapoint = next(source)
            except StopIteration:
                return
            finally:
                self.seconds += clock() - begin
            self.count += 1
            yield datapoint


class _Node:
    """A stage, the clock behind it, and the nodes of the stages before it."""

    def __init__(self, stage: Any, depth: int, known: dict[int, _Node]) -> None:
        known[id(stage)] = self
        self.stage, self.depth = stage, depth
        children = _children(stage)
        self.children = [known.get(id(child)) or _Node(child, depth + 1, known) for child in children]
        self.clocked = _Clocked(stage)
        if children and getattr(stage, "ds", None) is children[0]:
            stage.ds = self.children[0].clocked
        elif children:
            stage.df_lists = [child.clocked for child in self.children]

    def own_seconds(self) -> float:
        """The time of the stage without those before it."""
        return max(
            0.0,
            self.clocked.seconds
            - sum({node.clocked: node.clocked.seconds for node in self.children}.values()),
        )


class _Part:
    """Stages that run one after the other in one process."""

    def __init__(self, flow: Any, place: str, num_worker: int) -> None:
        known: dict[int, _Node] = {}
        self._root = _Node(flow, 0, known)
        self._nodes = list(known.values())  # each before those that it takes its datapoints from
        self._place, self._num_worker = place, num_worker

    def run(self, seconds: float, size: int) -> float:
        """Run for a while, after a third of it to fill buffers; returns the datapoints per second."""
        clocked = self._root.clocked
        clocked.reset_state()
        source = iter(RepeatedData(clocked, -1))
        next(source)  # workers start, files are opened
        self._take(source, seconds / 3, size // 3)
        for node in self._nodes:
            node.clocked.seconds, node.clocked.count = 0.0, 0
        return self._take(source, seconds, size)

    def stages(self) -> list[StageSpeed]:
        """What was measured, the outermost stage first."""
        whole = max(self._root.clocked.seconds, 1e-9)
        return [
            StageSpeed(
                name=stage_name(node.stage),
                place=self._place,
                depth=node.depth,
                count=node.clocked.count,
                seconds=node.own_seconds(),
                share=node.own_seconds() / whole,
                num_workers=self._num_worker,
                waits=num_workers(node.stage) > 0,
            )
            for node in self._nodes
        ]

    def _take(self, source: Iterator[Datapoint], seconds: float, size: int) -> float:
        begin, count = time.perf_counter(), 0
        while count < size and time.perf_counter() - begin < seconds:
            next(source)
            count += 1
        return count / max(time.perf_counter() - begin, 1e-9)


def _children(stage: Any) -> list[Any]:
    """The stages from which a stage takes its datapoints, as far as they run in this process."""
    if isinstance(stage, _RUNNERS):
        return []
    if isinstance(getattr(stage, "ds", None), DataFlow):
        return [stage.ds]
    several = getattr(stage, "df_lists", None)
    return list(several) if isinstance(several, (list, tuple)) else []


def _work_of(stage: Any) -> DataFlow:
    """What one worker of a stage does, to be run here."""
    if isinstance(stage, ParallelMapData):
        return MapData(stage.ds, stage.map_func)
    if isinstance(stage, MultiProcessMapAndBatchDataZMQ):
        return BatchData(MapData(stage.ds, stage.map_func), stage.batch_size)
    if isinstance(stage, MultiThreadRunner):
        return stage.dataflows[0]
    return stage.ds  # type: ignore[no-any-return]


def _limit(parts: Sequence[tuple[float, list[StageSpeed]]]) -> StageSpeed:
    """
    The stage that limits.

    The consumer's part runs at the speed of the whole, and most of its time is waiting if a part of workers is slower.
    """
    here = max(parts[0][1], key=lambda stage: stage.seconds)
    if not here.waits or len(parts) == 1:
        return here
    _, slowest = min(parts[1:], key=lambda part: part[0])
    return max(slowest, key=lambda stage: stage.seconds)
