"""
Speed of a pipeline and its stages: the pipeline runs alone, as fast as it can, while its meters count.

In:  a function that builds a pipeline.
Out: what each part of the pipeline did, and which one limits its speed; see `bottleneck`.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

from ...dataflow.base import DataFlow, Datapoint, length_or_none
from ...dataflow.batch import BatchData
from ...dataflow.map_and_batch import MultiProcessMapAndBatchDataZMQ
from ...dataflow.map_engine import ParallelMapData
from ...dataflow.meter import Meter
from ...dataflow.repeat import RepeatedData
from ...dataflow.runner import MultiProcessRunner, MultiProcessRunnerZMQ
from ...dataflow.runner_thread import MultiThreadRunner
from ...utils.cores import usable_cores
from ...utils.inspection import static_attribute
from ...utils.memory import available_memory
from ..speed.bottleneck import Load
from ..speed.cores import cpu_times
from ..speed.pipeline_load import Part, parts_between, read_pipeline

_PROCESS_RUNNERS = (MultiProcessRunner, MultiProcessRunnerZMQ, MultiProcessMapAndBatchDataZMQ)


class PipelineSpeed(NamedTuple):
    """
    Speed of a pipeline.

    Attributes:
        load: what its parts did in the period that was measured; a step is a datapoint.
        limit: the part that limits the speed; None if it is not known.
        makes_batches: whether the datapoints are batches, not samples.
    """

    load: Load
    limit: Optional[Part]
    makes_batches: bool

    @property
    def per_second(self) -> float:
        """Datapoints per second of the whole pipeline."""
        return 1 / self.load.interval


def measure_stages(build: Callable[[], DataFlow], seconds: float, size: int) -> PipelineSpeed:
    """
    Run a pipeline and measure its stages.

    Args:
        build: returns a new pipeline.
        seconds: approximate time limit; > 0. A third of it fills buffers before.
        size: maximum number of datapoints.

    Returns:
        The speed of the pipeline and its stages.

    Raises:
        RuntimeError: the pipeline yields no datapoint.
    """
    flow = build()
    flow.reset_state()
    source = iter(RepeatedData(flow, -1))
    next(source)  # workers start, files are opened
    _take(source, seconds / 3, size // 3)
    assert flow._meter is not None, "bug: reset_state() was called"
    meter: Meter = flow._meter
    before, cpu_before = read_pipeline(meter), cpu_times()
    num, spent = _take(source, seconds, size)
    parts = parts_between(before, read_pipeline(meter))
    cpu = cpu_times() - cpu_before
    is_contended = cpu.is_contended(spent)
    load = Load(
        parts,
        num,
        spent,
        0.0,
        cpu.used,
        usable_cores(),
        is_contended,
        available_memory(),
        length_or_none(flow),
    )
    limit = load.slowest if load.is_known or len(parts) == 1 else None
    return PipelineSpeed(load, limit, _makes_batches(flow))


def walk(flow: DataFlow, children: Callable[[DataFlow], Sequence[DataFlow]] | None = None) -> Iterator[DataFlow]:
    """
    Iterate over the stages of a pipeline, by default over those that run in this process.

    Args:
        flow: the outermost stage.
        children: returns the stages that a stage reads from. The default omits those inside a runner.

    Yields:
        Stages, each before the stages that it reads from.
    """
    seen: set[int] = set()
    waiting = [flow]
    while waiting:
        stage = waiting.pop()
        if id(stage) not in seen:  # a user's stage may refer to one that reads from it
            seen.add(id(stage))
            yield stage
            waiting += reversed((children or _children)(stage))


def num_workers(stage: DataFlow) -> int:
    """Return the number of workers of a stage; 0 if it runs in the process that iterates."""
    if isinstance(stage, ParallelMapData):
        return stage.num_worker
    if isinstance(stage, MultiThreadRunner):
        return stage.num_thread
    return stage.num_proc if isinstance(stage, _PROCESS_RUNNERS) else 0


def take(datapoints: Iterable[Datapoint], size: int, seconds: float) -> Iterator[Datapoint]:
    """
    Yield the first datapoints, as many as come in time.

    Args:
        datapoints: an iterable.
        size: maximum number of datapoints.
        seconds: time limit, which is looked at after each datapoint.
    """
    begin = time.perf_counter()
    for datapoint in itertools.islice(datapoints, size):
        yield datapoint
        if time.perf_counter() - begin > seconds:
            break


def count_pass(
    flow: DataFlow, size: int, seconds: float, look: Callable[[Datapoint], None] | None = None
) -> tuple[int, bool]:
    """
    Iterate a pass up to the limits of `take`.

    Args:
        flow: a DataFlow that was reset.
        size, seconds: the limits.
        look: called with each datapoint.

    Returns:
        The number of datapoints, and whether the pass ended within the limits.
    """
    begin, count = time.perf_counter(), 0
    for count, datapoint in enumerate(flow, 1):
        if look is not None:
            look(datapoint)
        if count >= size or time.perf_counter() - begin > seconds:
            return count, False
    return count, True


def _take(source: Iterator[Any], seconds: float, size: int) -> tuple[int, float]:
    """Take up to `size` datapoints, at least one. Return their number and the time."""
    begin, count = time.perf_counter(), 0
    while count == 0 or (count < size and time.perf_counter() - begin < seconds):
        next(source)
        count += 1
    return count, max(time.perf_counter() - begin, 1e-9)


def _makes_batches(stage: DataFlow) -> bool:
    """Return whether a stage, or a stage that it reads from, makes batches."""
    if isinstance(stage, (BatchData, MultiProcessMapAndBatchDataZMQ)):
        return True
    sources = [getattr(stage, "ds", None), *getattr(stage, "df_lists", ()), *getattr(stage, "dataflows", ())]
    return any(_makes_batches(source) for source in sources if isinstance(source, DataFlow))


def _children(stage: DataFlow) -> list[DataFlow]:
    """Return the stages that a stage reads from, except those inside a runner."""
    if isinstance(stage, (*_PROCESS_RUNNERS, MultiThreadRunner)):
        return []
    source = static_attribute(stage, "ds")
    if isinstance(source, DataFlow):
        return [source]
    several = static_attribute(stage, "df_lists")
    return list(several) if isinstance(several, (list, tuple)) else []
