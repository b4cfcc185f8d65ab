"""
A function applied to datapoints by processes, which also put the results into batches.

In:  datapoints of any DataFlow, which runs in a process of its own.
Out: batches.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from typing import Any, Callable, Iterator

import numpy as np

from ..utils.errors import type_error
from .base import (
    DataFlow,
    DataFlowReentrantGuard,
    Datapoint,
    InfiniteLengthError,
    NotResetError,
    ProxyDataFlow,
)
from .batch import BatchData
from .dropping import SharedDropWatch
from .map_process import map_arriving
from .process.channel import MAX_SLOTS
from .process.codec import Stack
from .process.group import Settings, WorkerGroup
from .process.worker import CHUNK_LENGTH, Task
from .repeat import RepeatedData

__all__ = ["MultiProcessMapAndBatchData", "MultiProcessMapAndBatchDataZMQ"]

_LARGE_BYTES = 1024
_DISPATCHER_SLOTS = 2  # chunks that wait in the channel of a worker


class MultiProcessMapAndBatchDataZMQ(ProxyDataFlow):
    """
    Apply a function to each datapoint, and batch the results, both in processes.

    As `BatchData(MultiProcessMapData(ds, num_proc, map_func), batch_size)` without end, but only whole batches come to
    this process, which so has next to nothing to do.

    Length: none; it never ends.
    Order: one process: that of `RepeatedData(ds, -1)`. Several: arbitrary, and a batch may hold datapoints of two passes.
    Process: `ds` is reset and runs in a process of its own, `map_func` and the batching in `num_proc` others; all are
        started by `reset_state`, and end with this object and with this process, however it ends.

    Args:
        ds: the DataFlow. It is repeated without end.
        num_proc: how many processes map; >= 1.
        map_func: takes a datapoint and returns the new one, or None to drop it. With the start methods spawn and
            forkserver both `ds` and it must be picklable.
        batch_size: datapoints in a batch; see BatchData for how they are stacked.
        buffer_size: about how many datapoints are under way, more than `batch_size`. Default: ten batches.

    Raises:
        TypeError: `ds` is no DataFlow, or `map_func` cannot be called.
        ValueError: a number is below 1, or `buffer_size` is not above `batch_size`.
        RuntimeError: `reset_state` was called twice; iterated twice at once, or before `reset_state`.
        RuntimeError: (while iterating) `map_func` dropped every datapoint of a whole pass of `ds`, and at least 1000.
        BaseException: (while iterating) what `ds`, `map_func` or the batching raised in a worker: the same type, with the
            worker's traceback as its cause; WorkerDied (a RuntimeError) when a process was killed or crashed.

    tensorpack: same; there the default `buffer_size` fails, and the death of a worker hangs the consumer.
    """

    def __init__(
        self,
        ds: DataFlow,
        num_proc: int,
        map_func: Callable[[Any], Any],
        batch_size: int,
        buffer_size: int | None = None,
    ) -> None:
        super().__init__(ds)
        who = type(self).__name__
        buffer_size = 10 * batch_size if buffer_size is None else buffer_size
        if not callable(map_func):
            raise type_error(f"{who}: map_func", "a function", map_func)
        if num_proc < 1 or batch_size < 1:
            raise ValueError(
                f"{who}: num_proc and batch_size must be at least 1, got {num_proc} and {batch_size}."
            )
        if buffer_size <= batch_size:
            raise ValueError(
                f"{who}: buffer_size must be above batch_size ({batch_size}), got {buffer_size}."
            )
        self.num_proc = num_proc
        self.map_func = map_func
        self.batch_size = batch_size
        self.buffer_size = buffer_size
        self._guard = DataFlowReentrantGuard()
        self._group: WorkerGroup | None = None
        self._received: deque[Datapoint] = deque()

    def __len__(self) -> int:
        raise InfiniteLengthError(f"{type(self).__name__}: has no length; it never ends.")

    def reset_state(self) -> None:
        """
        Start the processes.

        Raises:
            RuntimeError: called a second time.
            pickle.PicklingError: the start method is not fork, and `ds` or `map_func` cannot be pickled.
        """
        who = type(self).__name__
        if self._group is not None:
            raise RuntimeError(f"{who}: reset_state() was called twice; its workers run already.")
        pipes = [multiprocessing.Pipe() for _ in range(self.num_proc)]
        counts = multiprocessing.RawArray("q", 1 + 2 * self.num_proc)  # see SharedDropWatch
        settings = self._settings()
        # a message that the dispatcher gathers, those in the channel, and the one that the worker maps
        max_behind = (_DISPATCHER_SLOTS + 3) * settings[0].chunk_length
        name = getattr(self.map_func, "__name__", type(self.map_func).__name__)
        dispatcher = Task(
            f"in the DataFlow {type(self.ds).__name__}",
            _dispatch,
            (self.ds, counts),
            targets=[writing for _, writing in pipes],
        )
        mappers = [
            Task(
                f"in map_func {name} or in batching",
                _map_and_batch,
                (
                    SharedDropWatch(who, self.map_func, counts, index, max_behind),
                    self.map_func,
                    reading,
                    who,
                    self.batch_size,
                ),
                sources=[reading],
            )
            for index, (reading, _) in enumerate(pipes)
        ]
        self._group = WorkerGroup(who, [dispatcher, *mappers], settings)

    def __iter__(self) -> Iterator[Datapoint]:
        with self._guard:
            if self._group is None:
                raise NotResetError(
                    f"{type(self).__name__}: its workers are not started. Call reset_state() once, in the process that "
                    f"iterates, before the first iteration."
                )
            while True:
                for _, batches in self._group.receive():
                    self._received.extend(batches)
                while self._received:
                    yield self._received.popleft()

    def _settings(self) -> list[Settings]:
        """Divide the buffer: a part waits in the dispatcher and in the channels, the rest as batches."""
        per_worker = self.buffer_size // self.num_proc
        chunk_length = max(1, min(CHUNK_LENGTH, per_worker // (2 * _DISPATCHER_SLOTS)))
        num_batches = per_worker // self.batch_size
        dispatcher = Settings(_DISPATCHER_SLOTS, chunk_length, chunk_length)
        mapper = Settings(max(2, min(MAX_SLOTS, num_batches)), 1, 1)
        return [dispatcher] + [mapper] * self.num_proc


MultiProcessMapAndBatchData = MultiProcessMapAndBatchDataZMQ


def _dispatch(ds: DataFlow, counts: Any) -> Iterator[list[Datapoint]]:
    """Repeat `ds` without end, and count its passes; runs in a worker."""
    ds.reset_state()
    repeated = RepeatedData(ds, -1)
    for datapoint in repeated:
        counts[0] = repeated.num_passes
        yield [datapoint]


def _map_and_batch(
    drops: SharedDropWatch, map_func: Callable[[Any], Any], connection: Any, who: str, batch_size: int
) -> Iterator[list[Datapoint]]:
    """Map and batch what arrives; runs in a worker."""
    holder = []
    for results in map_arriving(map_func, connection, who):
        drops.count(results)
        for result in results:
            if result is not None:
                holder.append(result)
            if len(holder) == batch_size:
                yield [_batch_to_send(holder)]
                holder = []


def _batch_to_send(holder: list[Datapoint]) -> Datapoint:
    """Make a batch, except that large arrays are stacked where they are sent to, and not here."""
    large = [key for key, column in _columns(holder) if _are_large_and_alike(column)]
    if not large:
        return BatchData.aggregate_batch(holder)
    rest = []
    for datapoint in holder:
        rest.append(dict(datapoint) if isinstance(datapoint, dict) else list(datapoint))
        for key in large:
            rest[-1][key] = 0
    batch = BatchData.aggregate_batch(rest)
    for key in large:
        batch[key] = Stack(datapoint[key] for datapoint in holder)
    return batch


def _columns(holder: list[Datapoint]) -> Any:
    """Yield (key, values) for each component; what does not fit together is found by BatchData, which says it well."""
    try:
        columns = BatchData.aggregate_batch(holder, use_list=True)
    except ValueError:
        return []
    return columns.items() if isinstance(columns, dict) else enumerate(columns)


def _are_large_and_alike(column: list[Any]) -> bool:
    first = column[0]
    if type(first) is not np.ndarray or first.nbytes < _LARGE_BYTES or first.dtype.hasobject:
        return False
    return all(type(x) is np.ndarray and x.dtype == first.dtype and x.shape == first.shape for x in column)
