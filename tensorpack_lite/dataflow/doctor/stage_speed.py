"""
Speed of a pipeline and its stages: how long each stage takes for a datapoint, without the stages that it reads from.

In:  a function that builds a pipeline.
Out: the speed of the pipeline and of each stage, and the bottleneck.

A pipeline is cut into parts that run concurrently: the stages in the consumer's process, the stages in the workers of
each runner, and the function of each map with workers. Each part is measured alone in this process, with a clock
between its stages. The speed of a part is multiplied by its number of workers.
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
    Speed of one stage.

    Attributes:
        name: the class and its function, if any, e.g. "MapData(resize)".
        place: where the stage runs: "here", or e.g. "in 2 workers of MultiProcessRunnerZMQ".
        depth: number of stages of its part between the stage and the consumer.
        count: number of datapoints that it yielded.
        seconds: time of the stage itself, without the stages that it reads from.
        share: share in the time of its part, 0 to 1.
        num_workers: number of workers that run the stage.
        waits: whether the stage only waits for its workers; their work is another part.
        unit: "batches" if the stage or a stage that it reads from makes batches, otherwise "samples".
    """

    name: str
    place: str
    depth: int
    count: int
    seconds: float
    share: float
    num_workers: int = 1
    waits: bool = False
    unit: str = "samples"

    @property
    def per_second(self) -> float:
        """Datapoints per second that this stage would yield if all others took no time."""
        return self.num_workers * self.count / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class PipelineSpeed:
    """
    Speed of a pipeline.

    Attributes:
        per_second: datapoints per second of the whole pipeline.
        stages: the stages of all parts; the consumer's part first, its outermost stage first.
        limit: the bottleneck: the slowest stage of the slowest part.
    """

    per_second: float
    stages: Sequence[StageSpeed]
    limit: StageSpeed


def measure_stages(build: Callable[[], DataFlow], seconds: float, size: int) -> PipelineSpeed:
    """
    Measure a pipeline and its stages.

    Args:
        build: returns a new pipeline; called once for each part.
        seconds: approximate time limit for each part; > 0.
        size: maximum number of datapoints for each part.

    Returns:
        The speed of the pipeline and its stages.

    Raises:
        RuntimeError: the pipeline yields no datapoint.
    """
    here = _Part(build(), "here", 1)
    parts = [(here.run(seconds, size), here.stages())]
    num_cuts = len([stage for stage in walk(build()) if num_workers(stage) > 0])
    for index in range(num_cuts):
        # a pipeline can be reset only once, so each part is taken from a new one
        cut = [stage for stage in walk(build()) if num_workers(stage) > 0][index]
        number = num_workers(cut)
        workers = _Part(_work_of(cut), f"in {number} workers of {type(cut).__name__}", number)
        speed, stages = number * workers.run(seconds, size), workers.stages()
        if isinstance(cut, ParallelMapData):  # its `ds` belongs to the consumer's part
            speed, stages = stages[0].per_second, stages[:1]
        parts.append((speed, stages))
    return PipelineSpeed(parts[0][0], [stage for _, stages in parts for stage in stages], _limit(parts))


def walk(flow: DataFlow) -> Iterator[DataFlow]:
    """
    Iterate over the stages of a pipeline that run in this process.

    Args:
        flow: the outermost stage.

    Yields:
        Stages, each before the stages that it reads from. The stages inside a runner are left out.
    """
    yield flow
    for child in _children(flow):
        yield from walk(child)


def num_workers(stage: DataFlow) -> int:
    """Return the number of workers of a stage; 0 if it runs in the process that iterates."""
    if isinstance(stage, ParallelMapData):
        return stage.num_worker
    if isinstance(stage, MultiThreadRunner):
        return stage.num_thread
    return stage.num_proc if isinstance(stage, _PROCESS_RUNNERS) else 0


def stage_name(stage: DataFlow) -> str:
    """Return the class of a stage and its function, e.g. "MapData(resize)"."""
    function = getattr(stage, "map_func", None) or getattr(stage, "func", None)
    function = getattr(function, "func", function)  # the function of a functools.partial
    name = getattr(function, "__name__", "") if callable(function) else ""
    return type(stage).__name__ + (f"({name})" if name else "")


class _Clocked(ProxyDataFlow):
    """A stage with a clock, which takes the place of the stage in the pipeline."""

    def __init__(self, stage: Any, depth: int, known: dict[int, _Clocked]) -> None:
        known[id(stage)] = self
        self.ds, self.depth = stage, depth
        self.seconds, self.count = 0.0, 0
        children = _children(stage)
        for child in children:
            if id(child) not in known:
                _Clocked(child, depth + 1, known)
        self._sources = [known[id(child)] for child in children]
        if children and getattr(stage, "ds", None) is children[0]:
            stage.ds = self._sources[0]
        elif children:
            stage.df_lists = self._sources

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

    def own_seconds(self) -> float:
        """Return the time of the stage without the stages that it reads from."""
        sources = set(self._sources)  # a stage may read from one source twice
        return max(0.0, self.seconds - sum(source.seconds for source in sources))


class _Part:
    """Stages that run in one process, one after the other."""

    def __init__(self, flow: DataFlow, place: str, num_worker: int) -> None:
        known: dict[int, _Clocked] = {}
        self._root = _Clocked(flow, 0, known)
        self._clocked = list(known.values())  # each before the stages that it reads from
        self._place, self._num_worker = place, num_worker

    def run(self, seconds: float, size: int) -> float:
        """Run, first for a third of the time to fill buffers, then for all of it. Return datapoints per second."""
        self._root.reset_state()
        source = iter(RepeatedData(self._root, -1))
        next(source)  # workers start, files are opened
        self._take(source, seconds / 3, size // 3)
        for clocked in self._clocked:
            clocked.seconds, clocked.count = 0.0, 0
        return self._take(source, seconds, size)

    def stages(self) -> list[StageSpeed]:
        """Return the speeds of the stages, the outermost stage first."""
        whole = max(self._root.seconds, 1e-9)
        return [
            StageSpeed(
                name=stage_name(clocked.ds),
                place=self._place,
                depth=clocked.depth,
                count=clocked.count,
                seconds=clocked.own_seconds(),
                share=clocked.own_seconds() / whole,
                num_workers=self._num_worker,
                waits=num_workers(clocked.ds) > 0,
                unit="batches" if _makes_batches(clocked.ds) else "samples",
            )
            for clocked in self._clocked
        ]

    def _take(self, source: Iterator[Datapoint], seconds: float, size: int) -> float:
        begin, count = time.perf_counter(), 0
        while count < size and time.perf_counter() - begin < seconds:
            next(source)
            count += 1
        return count / max(time.perf_counter() - begin, 1e-9)


def _children(stage: DataFlow) -> list[DataFlow]:
    """Return the stages that a stage reads from, except those inside a runner."""
    if isinstance(stage, _RUNNERS):
        return []
    source = getattr(stage, "ds", None)
    if isinstance(source, DataFlow):
        return [source]
    several = getattr(stage, "df_lists", None)
    return list(several) if isinstance(several, (list, tuple)) else []


def _makes_batches(stage: DataFlow) -> bool:
    """Return whether a stage or a stage that it reads from makes batches."""
    if isinstance(stage, (BatchData, MultiProcessMapAndBatchDataZMQ)):
        return True
    sources = [getattr(stage, "ds", None), *getattr(stage, "df_lists", ()), *getattr(stage, "dataflows", ())]
    return any(_makes_batches(source) for source in sources if isinstance(source, DataFlow))


def _work_of(stage: Any) -> DataFlow:
    """Return a DataFlow that does in this process the work of one worker of a stage."""
    if isinstance(stage, ParallelMapData):
        return MapData(stage.ds, stage.map_func)
    if isinstance(stage, MultiProcessMapAndBatchDataZMQ):
        return BatchData(MapData(stage.ds, stage.map_func), stage.batch_size)
    if isinstance(stage, MultiThreadRunner):
        return stage.dataflows[0]
    return stage.ds  # type: ignore[no-any-return]


def _limit(parts: Sequence[tuple[float, list[StageSpeed]]]) -> StageSpeed:
    """
    Return the bottleneck.

    The consumer's part runs at the speed of the pipeline, and spends most of its time waiting if workers are slower.
    """
    here = max(parts[0][1], key=lambda stage: stage.seconds)
    if not here.waits or len(parts) == 1:
        return here
    _, slowest = min(parts[1:], key=lambda part: part[0])
    return max(slowest, key=lambda stage: stage.seconds)
