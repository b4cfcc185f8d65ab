"""
The work of each part of a pipeline between two moments, from its meters.

In:  the meter of the outermost stage, read twice.
Out: a `Part` for all stages that run one after the other, with their counts and times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...dataflow.meter import Meter
from ...dataflow.records import Reading
from ...utils.memory import unshared_memory

HERE, THREADS, PROCESSES = "here", "threads", "processes"


@dataclass(frozen=True)
class StageWork:
    """
    Counts and times of one stage, in all workers of its part together. Times are in seconds.

    Attributes:
        name: the class and its function, e.g. "MapData(resize)".
        depth: number of stages between it and the consumer of the pipeline.
        count: number of datapoints.
        wall: its own time for one datapoint; None if none was timed.
        cpu: the CPU time of its thread in `wall`; None if none was timed.
        num_bytes: bytes of a datapoint; 0 if unknown.
        waited_in, waited_out: how long it waited for workers, threads or queues that it reads, and for room.
    """

    name: str
    depth: int
    count: int
    wall: Optional[float]
    cpu: Optional[float]
    num_bytes: float
    waited_in: float
    waited_out: float


@dataclass(frozen=True)
class Part:
    """
    Stages that run one after the other, in one thread or in each of several workers.

    Attributes:
        owner: the stage whose workers they are; for the part of the consumer, the outermost stage.
        kind: HERE, THREADS or PROCESSES.
        num_workers: number of workers.
        stages: the outermost stage first. For processes, the first one is the worker itself, with its waiting times.
        pids: of its processes.
        memory: bytes that one of its processes uses and does not share, on average; 0 if unknown.
    """

    owner: str
    kind: str
    num_workers: int
    stages: Sequence[StageWork]
    pids: Sequence[int] = ()
    memory: int = 0

    @property
    def is_known(self) -> bool:
        """Whether all stages that gave datapoints were timed."""
        return all(stage.wall is not None or stage.count < 2 for stage in self._timed_stages)

    @property
    def busy(self) -> float:
        """Seconds of work of all workers together."""
        return sum(stage.count * (stage.wall or 0.0) for stage in self._timed_stages)

    @property
    def cpu(self) -> float:
        """CPU seconds in `busy`."""
        return sum(stage.count * (stage.cpu or 0.0) for stage in self._timed_stages)

    @property
    def slowest(self) -> StageWork:
        """The stage with the most work."""
        return max(self._timed_stages, key=lambda stage: stage.count * (stage.wall or 0.0))

    @property
    def _timed_stages(self) -> Sequence[StageWork]:
        return self.stages[1:] if self.kind == PROCESSES and len(self.stages) > 1 else self.stages


class _Records(NamedTuple):
    """
    The records of a part at one moment.

    Attributes:
        owner, kind, pids: as in `Part`.
        rows: for each stage, its depth and its record in each worker.
    """

    owner: str
    kind: str
    pids: Tuple[int, ...]
    rows: List[Tuple[int, List[Reading]]]


Readings = Dict[str, _Records]  # the records of a pipeline at one moment, by a key of the part


def read_pipeline(meter: Meter, inputs: Sequence[Meter] = ()) -> Readings:
    """
    Read the records of a pipeline.

    Args:
        meter: of its outermost stage.
        inputs: meters of functions that the thread of the outermost stage calls, too.
    """
    rows = [(0, [function.read()]) for function in inputs]
    taken = {"here": _Records(meter.name, HERE, (), rows)}
    _add(taken, [meter], "here", "", 0)
    return taken


def _add(taken: Readings, same: Sequence[Meter], part: str, path: str, depth: int) -> None:
    """Add the meters of one stage in several workers to a part, and then the stages that it reads."""
    taken[part].rows.append((depth, [meter.read() for meter in same]))
    first = same[0]
    threads = [thread for meter in same for thread in meter.threads]
    if threads:
        key = f"{path}/threads"
        taken[key] = _Records(first.name, THREADS, (), [])
        _add(taken, threads, key, key, depth + 1)
    _add_processes(taken, same, path, depth)
    for number in range(len(first.children)):
        children = [meter.children[number] for meter in same if number < len(meter.children)]
        _add(taken, children, part, f"{path}/{number}", depth + 1)


def _add_processes(taken: Readings, same: Sequence[Meter], path: str, depth: int) -> None:
    """Add the worker processes of a stage: a part for those with the same stages."""
    alike: Dict[Tuple[str, ...], List[Tuple[int, List[Reading]]]] = {}
    for process in (process for meter in same for process in meter.processes):
        readings = process.read()
        if len(readings) > 1:  # else it has not begun
            names = tuple(reading.name for reading in readings[1:])
            alike.setdefault(names, []).append((process.process.pid or 0, readings))
    for names, workers in alike.items():
        key = f"{path}/processes of {names}"
        rows = [
            (depth + 1 + _depth(workers[0][1], number), [readings[number] for _, readings in workers])
            for number in range(1 + len(names))
        ]
        taken[key] = _Records(same[0].name, PROCESSES, tuple(pid for pid, _ in workers), rows)


def _depth(readings: Sequence[Reading], number: int) -> int:
    parent = readings[number].parent
    return 0 if parent < 0 else 1 + _depth(readings, parent)


def parts_between(before: Readings, after: Readings) -> list[Part]:
    """Return what the parts of a pipeline have done between two readings, the consumer's part first."""
    parts = []
    for key, part in after.items():
        earlier = [readings for _, readings in before[key].rows] if key in before else []
        earlier += [[]] * len(part.rows)  # for stages that are new
        stages = [_stage_between(depth, was, now) for (depth, now), was in zip(part.rows, earlier)]
        num_workers = len(part.rows[0][1])
        parts.append(Part(part.owner, part.kind, num_workers, stages, part.pids, unshared_memory(part.pids)))
    return parts


def _stage_between(depth: int, before: Sequence[Reading], after: Sequence[Reading]) -> StageWork:
    def change(field: str) -> float:
        earlier = sum(getattr(reading, field) for reading in before)
        return float(sum(getattr(reading, field) for reading in after) - earlier)

    num_timed = change("num_timed")
    return StageWork(
        after[0].name,
        depth,
        int(change("count")),
        change("wall") / num_timed if num_timed else None,
        change("cpu") / num_timed if num_timed else None,
        change("num_bytes") / num_timed if num_timed else 0.0,
        change("waited_in"),
        change("waited_out"),
    )
