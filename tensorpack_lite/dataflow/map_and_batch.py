"""
Worker processes that map datapoints and put the results into batches.

In:  datapoints of any DataFlow, which runs in a separate process.
Out: batches.
"""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any, Callable, Iterator

from ..utils.checks import check_at_least, check_callable
from .base import DataFlow, DataFlowReentrantGuard, Datapoint, InfiniteLengthError, require_workers
from .batch import Column, stack_component, stack_datapoints
from .dropping import SharedDropCounter
from .failure import function_name
from .map_process import map_arriving
from .process.channel import MAX_SLOTS
from .process.codec import Stacked, are_alike
from .process.worker import CHUNK_LENGTH, Settings, Task
from .repeat import RepeatedData
from .workers import DataFromWorkers

if TYPE_CHECKING:
    import ctypes
    from multiprocessing.connection import Connection

_LARGE_BYTES = 1024
_DISPATCHER_SLOTS = 2  # chunks that wait in the channel of a worker


class MultiProcessMapAndBatchDataZMQ(DataFromWorkers):
    """
    DataFlow that applies a function to each datapoint and batches the results, both in worker processes.

    Equivalent to `BatchData(MultiProcessMapData(ds, num_proc, map_func), batch_size)` without end, but the current
    process receives complete batches and therefore has little work.

    Length: infinite.
    Order: that of `RepeatedData(ds, -1)` with one process. With several processes the order is arbitrary, and a batch
        may contain datapoints of two passes.
    Process: `ds` is reset and runs in one process; `map_func` and the batching run in `num_proc` others. `reset_state`
        starts all of them. They end when this object is deleted and when the current process ends, even if it
        is killed.

    Args:
        ds: the DataFlow. It is repeated without end.
        num_proc: number of processes that map; >= 1.
        map_func: takes a datapoint and returns the new one, or None to drop it. With the start methods spawn and
            forkserver both `ds` and `map_func` must be picklable.
        batch_size: datapoints in a batch; see BatchData for how they are stacked.
        buffer_size: approximate number of datapoints in flight, more than `batch_size`. Default: `10 * batch_size`.

    Raises:
        TypeError: `ds` is not a DataFlow, or `map_func` is not callable.
        ValueError: a number is below 1, or `buffer_size` is not above `batch_size`.
        RuntimeError: `reset_state` was called twice or not at all, or there is a second iterator.
        RuntimeError: (while iterating) `map_func` dropped a whole pass of `ds`, and at least 1000 datapoints in a row.
        BaseException: (while iterating) `ds`, `map_func` or the batching raised it in a worker. It has the
            same type, and the worker's traceback is its cause. WorkerDied (a RuntimeError) means that a
            worker was killed or crashed.
    """

    def __init__(
        self,
        ds: DataFlow,
        num_proc: int,
        map_func: Callable[[Any], Any],
        batch_size: int,
        buffer_size: int | None = None,
    ) -> None:
        super().__init__(ds, num_proc)
        who = type(self).__name__
        buffer_size = 10 * batch_size if buffer_size is None else buffer_size
        self.map_func = check_callable(f"{who}: map_func", map_func)
        check_at_least(f"{who}: batch_size", batch_size, 1)
        if buffer_size <= batch_size:
            raise ValueError(
                f"{who}: buffer_size is too small (expected more than batch_size {batch_size}, got {buffer_size})."
            )
        self.batch_size = batch_size
        self.buffer_size = buffer_size
        self._guard = DataFlowReentrantGuard()

    def __len__(self) -> int:
        raise InfiniteLengthError(f"{type(self).__name__}: has no length; it never ends.")

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield batches as they arrive."""
        with self._guard:
            require_workers(self, self._owner)
            yield from self._stream()

    def _resume_level(self) -> tuple[str, str]:
        return "none", "its workers batch what they receive first; use BatchData(MultiProcessMapData(...))"

    def _tasks(self) -> list[Task]:
        pipes = [multiprocessing.Pipe() for _ in range(self.num_proc)]
        counts = multiprocessing.RawArray("q", 1 + 2 * self.num_proc)  # see SharedDropCounter
        # one part of the buffer waits in the dispatcher and in the channels, the rest as batches
        per_worker = self.buffer_size // self.num_proc
        chunk_length = max(1, min(CHUNK_LENGTH, per_worker // (2 * _DISPATCHER_SLOTS)))
        num_batches = max(2, min(MAX_SLOTS, per_worker // self.batch_size))
        dispatcher = Task(
            f"in the DataFlow {type(self.ds).__name__}",
            _dispatch,
            (self.ds, counts),
            Settings(_DISPATCHER_SLOTS, chunk_length, chunk_length),
            targets=[writing for _, writing in pipes],
        )
        # a message that the dispatcher collects, those in the channel, and the one that the worker maps
        max_behind = (_DISPATCHER_SLOTS + 3) * chunk_length
        where = f"in map_func {function_name(self.map_func)} or in batching"
        mappers = []
        for index, (reading, _) in enumerate(pipes):
            drops = SharedDropCounter(type(self).__name__, self.map_func, counts, index, max_behind)
            args = (drops, self.map_func, reading, self.batch_size)
            mappers.append(Task(where, _map_and_batch, args, Settings(num_batches, 1, 1), [reading]))
        return [dispatcher, *mappers]


MultiProcessMapAndBatchData = MultiProcessMapAndBatchDataZMQ


def _dispatch(ds: DataFlow, counts: ctypes.Array[ctypes.c_longlong]) -> Iterator[list[Datapoint]]:
    """Repeat `ds` without end, and count its passes; runs in a worker."""
    ds.reset_state()
    repeated = RepeatedData(ds, -1)
    for datapoint in repeated:
        counts[0] = repeated.num_passes
        yield [datapoint]


def _map_and_batch(
    drops: SharedDropCounter, map_func: Callable[[Any], Any], connection: Connection, batch_size: int
) -> Iterator[list[Datapoint]]:
    """Map and batch the datapoints that arrive; runs in a worker."""
    holder = []
    for results in map_arriving(map_func, connection):
        drops.count(results)
        for result in results:
            if result is not None:
                holder.append(result)
            if len(holder) == batch_size:
                yield [_batch_to_send(holder)]
                holder = []


def _batch_to_send(holder: list[Datapoint]) -> Datapoint:
    """Return a batch in which large arrays are not stacked yet: the channel stacks them in shared memory."""
    who = "MultiProcessMapAndBatchDataZMQ"
    batch = stack_datapoints(who, holder, use_list=True)
    for key, column in batch.items() if isinstance(batch, dict) else enumerate(batch):
        is_large = are_alike(column) and column[0].nbytes >= _LARGE_BYTES
        batch[key] = Stacked(column) if is_large else stack_component(Column(who, key, column))
    return batch
