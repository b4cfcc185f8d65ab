"""
A function applied to datapoints by processes.

In:  datapoints of any DataFlow, pulled in this process.
Out: what the function makes of them, in the order in which it got ready.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from typing import Any, Callable, Iterator

from .base import DataFlow, Datapoint
from .map_engine import ParallelMapData, WorkerPool
from .process.channel import MAX_SLOTS, ChannelClosed, Reader, Writer
from .process.group import Settings, WorkerGroup
from .process.worker import CHUNK_LENGTH, Task, take_chunk

__all__ = ["MultiProcessMapData", "MultiProcessMapDataZMQ", "map_arriving"]

_PATIENCE_SECONDS = 0.05  # results that are not taken slow a worker down; they do not stop it
_TOGETHER_SECONDS = 0.01  # results that take less travel together: waking the thread that sends costs 0.1 ms


class MultiProcessMapDataZMQ(ParallelMapData):
    """
    Apply a function to each datapoint, in processes: for functions that compute in Python.

    Not strict: `ds` is repeated without end, and a pass never ends. Bound it from outside: `FixedSizeData`, or
    `steps_per_epoch`. Strict: each pass yields exactly what `MapData(ds, map_func)` does. In both the order is that of
    getting ready, and exactly `buffer_size` datapoints are in flight between two calls of `next`.

    Datapoints go to the workers and come back as MultiProcessRunnerZMQ's do: through shared memory, small ones many at
    a time. (ZMQ is in the name only.)

    Length: that of `ds`.
    Order: that of `ds` with one process, arbitrary with several.
    Process: `ds` runs in this process; `map_func` in `num_proc` others, which `reset_state` starts by the start method
        of multiprocessing. They end with this object and with this process, however it ends. With `fix_rng_seed` each
        has a random stream of its own; which datapoint goes to which worker depends on their speed.

    Args:
        ds: the DataFlow whose datapoints are mapped.
        num_proc: how many processes; >= 1.
        map_func: takes a datapoint and returns the new one, or None to drop it (not when strict). With the start methods
            spawn and forkserver it must be picklable: a function of a module, or an object of a class of a module.
        buffer_size: datapoints in flight; >= 1. When strict it is cut to the length of `ds`.
        strict: see above.

    Raises:
        TypeError: `ds` is no DataFlow, `num_proc` is missing or `map_func` cannot be called.
        ValueError: a number is below 1; when strict, and iterating, `map_func` returned None.
        pickle.PicklingError: (by `reset_state`) `map_func` cannot be sent to a spawned worker.
        RuntimeError: `reset_state` was called twice; iterated twice at once, or before `reset_state`; when strict, a
            pass of `ds` was shorter than the buffer, or than its length; when not strict, a pass of `ds` was empty, or
            `map_func` dropped all of it (and at least 1000 datapoints in a row).
        BaseException: (while iterating) what `map_func` raised in a worker: the same type, with the worker's traceback
            as its cause; WorkerDied (a RuntimeError) when a worker was killed or crashed. The workers are ended then.

    Example:
        >>> MultiProcessMapDataZMQ(df, 4, read_and_crop, buffer_size=200)  # doctest: +SKIP

    Note:
        In the worker `map_func` may change the datapoint: it is the worker's own.

    Source: `tests/benchmarks/processes.py` measures it.
    tensorpack: same; there results are lost when they come fast and the buffer is small, and an error or the death of a
    worker hangs the consumer.
    """

    num_argument = "num_proc"

    def __init__(
        self,
        ds: DataFlow,
        num_proc: int | None = None,
        map_func: Callable[[Any], Any] | None = None,
        *,
        buffer_size: int = 200,
        strict: bool = False,
    ) -> None:
        super().__init__(ds, num_proc, map_func, buffer_size, strict)
        self.num_proc = self.num_worker

    def reset_state(self) -> None:
        """
        Start the workers and reset `ds`. The buffer is filled by the first iteration.

        Raises:
            RuntimeError: called a second time.
        """
        if self._pool is not None:
            raise RuntimeError(
                f"{type(self).__name__}: reset_state() was called twice; its workers run already."
            )
        super().reset_state()

    def _start_pool(self) -> WorkerPool:
        return _ProcessPool(type(self).__name__, self.num_proc, self.map_func, self.buffer_size)


MultiProcessMapData = MultiProcessMapDataZMQ


def map_arriving(map_func: Callable[[Any], Any], connection: Any, who: str) -> Iterator[list[Any]]:
    """
    Map what comes through a channel, until its writer is gone; runs in a worker.

    Args:
        map_func: takes a datapoint.
        connection: the reading end of the channel.
        who: the stage, for errors.

    Yields:
        Results; several at once if they come fast, so that they travel together.

    Raises:
        ChannelClosed: the writer is gone.
    """
    reader = Reader(connection)
    while True:
        datapoints = deque(reader.receive())
        while datapoints:
            results = []
            begin = time.perf_counter()
            while datapoints and time.perf_counter() - begin < _TOGETHER_SECONDS:
                results.append(map_func(datapoints.popleft()))
            yield results


class _ProcessPool(WorkerPool):
    """
    Processes, each with a channel for datapoints and one for results.

    A datapoint goes to the worker that has the fewest. A worker that has results left waits a moment before it maps
    on, but not until they are taken: this process may be waiting for it to read.
    """

    def __init__(self, who: str, num_proc: int, map_func: Callable[[Any], Any], buffer_size: int) -> None:
        pipes = [multiprocessing.Pipe() for _ in range(num_proc)]
        name = getattr(map_func, "__name__", type(map_func).__name__)
        tasks = [
            Task(f"in map_func {name}", map_arriving, (map_func, there, who), sources=[there])
            for _, there in pipes
        ]
        self._writers = [Writer(here, who) for here, _ in pipes]
        self._group = WorkerGroup(who, tasks, Settings(max_ahead=1, patience=_PATIENCE_SECONDS))
        self._num_assigned = [0] * num_proc
        self._chunk_length = max(1, min(CHUNK_LENGTH, buffer_size // (num_proc * MAX_SLOTS // 2)))
        self._waiting: deque[Datapoint] = deque()  # not sent yet
        self._results: deque[Any] = deque()

    def submit(self, datapoint: Datapoint) -> None:
        self._waiting.append(datapoint)
        if len(self._waiting) >= self._chunk_length:
            self._send_waiting()

    def collect(self) -> Any:
        while not self._results:
            self._send_waiting()
            for index, results in self._group.receive():
                self._num_assigned[index] -= len(results)
                self._results.extend(results)
        return self._results.popleft()

    def stop(self) -> None:
        self._group.stop()
        for writer in self._writers:
            writer.close()

    def _send_waiting(self) -> None:
        """Send what waits, as far as there is room."""
        while self._waiting:
            index = self._least_busy_with_room()
            if index is None:
                return
            chunk = take_chunk(self._waiting, self._chunk_length)
            self._num_assigned[index] += len(chunk)
            try:
                self._writers[index].send(chunk)
            except ChannelClosed:
                self._group.raise_failure(index)

    def _least_busy_with_room(self) -> int | None:
        for index in sorted(range(len(self._writers)), key=self._num_assigned.__getitem__):
            try:
                if self._writers[index].has_room():
                    return index
            except ChannelClosed:
                self._group.raise_failure(index)
        return None
