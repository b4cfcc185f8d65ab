"""
Worker processes that map datapoints.

In:  datapoints of any DataFlow, pulled in the current process.
Out: results of the function, in the order in which they become ready.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from multiprocessing.connection import Connection
from time import perf_counter, thread_time
from typing import Any, Callable, Iterator

from .base import DataFlow, Datapoint, reset_twice_error
from .exact.parallel_map import ExactPool, IdleShare, InArrival, InOrder, SeededFunction, with_seed
from .failure import function_name
from .map_engine import ParallelMapData, WorkerPool
from .meter import Meter, this_worker
from .process.channel import ChannelClosed, Reader, Writer
from .process.group import WorkerGroup
from .process.worker import CHUNK_LENGTH, Settings, Task, take_chunk
from .records import COUNT

_PATIENCE_SECONDS = 0.05  # how long a worker waits for its last result to be taken before it maps on
_NUM_MESSAGES = 4  # with small datapoints, in flight for each worker; smaller messages cost more
# Results of this period are sent together, because each message wakes the sending thread and the consumer, whose cache
# the workers have overwritten: in messages of 6 images, an image costs the consumer 1.3 times the time as in messages of 25.
_TOGETHER_SECONDS = 0.04
_CHUNK_BYTES = 4 << 20  # larger than in runners, because buffer_size limits the memory


class MultiProcessMapDataZMQ(ParallelMapData):
    """
    DataFlow that applies a function to each datapoint in worker processes. Suited to functions that compute in Python.

    Not strict: `ds` is repeated without end, and a pass never ends. Limit it with `FixedSizeData` or
    `steps_per_epoch`. Strict: each pass yields exactly the results of `MapData(ds, map_func)`. In both modes results
    are yielded as they become ready, and exactly `buffer_size` datapoints are in flight between two calls of `next`.

    Like MultiProcessRunnerZMQ, it sends large arrays through shared memory and small datapoints in chunks, without ZMQ.

    Length: that of `ds`.
    Order: that of `ds` with one process, arbitrary with several.
    Process: `ds` runs in the current process, `map_func` in `num_proc` others. `reset_state` starts them with the start
        method of multiprocessing. They end when this object is deleted and when the current process ends, even if it is
        killed. After `fix_rng_seed` each worker has a different random stream, which is the same in every run, but the
        assignment of datapoints to workers depends on their speed.

    Args:
        ds: the DataFlow whose datapoints are mapped.
        num_proc: number of processes; >= 1.
        map_func: takes a datapoint and returns the new one, or None to drop it (not when strict). With the
            start methods spawn and forkserver it must be picklable: a module-level function, or an instance
            of a module-level class.
        buffer_size: number of datapoints in flight; >= 1. When strict, at most the length of `ds` is used.
        strict: see above.

    Raises:
        TypeError: `ds` is not a DataFlow, `num_proc` is missing or `map_func` is not callable.
        ValueError: a number is below 1; (while iterating, strict) `map_func` returned None.
        pickle.PicklingError: (in `reset_state`) `map_func` cannot be sent to a spawned worker.
        RuntimeError: `reset_state` was called twice or not at all; two iterators run at once; (strict) a pass of `ds`
            was shorter than the buffer or than its length; (not strict) a pass of `ds` was empty, or `map_func` dropped
            all of it, and at least 1000 datapoints in a row.
        BaseException: (while iterating) `map_func` raised it in a worker. It has the same type, and the
            worker's traceback is its cause. WorkerDied (a RuntimeError) means that a worker was killed or
            crashed. The workers are stopped.

    Example:
        >>> MultiProcessMapDataZMQ(df, 4, read_and_crop, buffer_size=200)  # doctest: +SKIP

    Note:
        `map_func` may change the datapoint in place, because the worker has its own copy.

    Source: `benchmarks/processes.py` measures the speed.
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
        Start the workers and reset `ds`. The first iteration fills the buffer.

        Raises:
            RuntimeError: `reset_state` was already called.
        """
        if self._pool is not None:
            raise reset_twice_error(type(self).__name__)
        super().reset_state()

    def _start_pool(self) -> WorkerPool:
        arguments = type(self).__name__, self.num_proc, self.map_func, self.buffer_size
        if self._stage_position is None:
            return _ProcessPool(*arguments)
        return ExactPool(_OrderedProcessPool(*arguments), self.ds, with_seed)


MultiProcessMapData = MultiProcessMapDataZMQ


def map_arriving(map_func: Callable[[Any], Any], connection: Connection) -> Iterator[list[Any]]:
    """
    Map the datapoints that arrive on a channel until its writer closes it. Runs in a worker.

    Args:
        map_func: takes a datapoint.
        connection: the reading end of the channel.

    Yields:
        Lists of results. Fast results are sent together.

    Raises:
        ChannelClosed: the writer has closed the channel.
    """
    reader = Reader(connection)
    worker, function = this_worker(), Meter(function_name(map_func))
    words, count = function.words, 0
    while True:
        worker.begin_wait()
        datapoints = reader.receive()
        worker.end_wait()
        datapoints.reverse()
        while datapoints:
            results = []
            begin, cpu_begin = perf_counter(), thread_time()
            end = begin + _TOGETHER_SECONDS
            try:
                while datapoints and perf_counter() < end:
                    words[COUNT] = count = count + 1
                    results.append(map_func(datapoints.pop()))
            except BaseException:  # also SystemExit: the error that is sent names the datapoint
                worker.failed_at = count
                raise
            function.add(len(results), perf_counter() - begin, thread_time() - cpu_begin)
            yield results


def _map_seeded(map_func: Callable[[Any], Any], connection: Connection) -> Iterator[list[Any]]:
    """Map datapoints that arrive with their seeds; runs in a worker."""
    return map_arriving(SeededFunction(map_func), connection)


class _ProcessPool(WorkerPool):
    """
    Processes, each with one channel for datapoints and one for results.

    A datapoint goes to the worker with the fewest datapoints. If the results of a worker are not taken, it waits a
    moment before it maps the next datapoint. It does not wait longer, because this process may be waiting for
    it to read.
    """

    _make: Any = staticmethod(map_arriving)

    def __init__(self, who: str, num_proc: int, map_func: Callable[[Any], Any], buffer_size: int) -> None:
        pipes = [multiprocessing.Pipe() for _ in range(num_proc)]
        where = f"in map_func {function_name(map_func)}"
        settings = Settings(max_ahead=1, patience=_PATIENCE_SECONDS, chunk_bytes=_CHUNK_BYTES)
        tasks = [Task(where, self._make, (map_func, there), settings, [there]) for _, there in pipes]
        self._writers = [Writer(here, who) for here, _ in pipes]
        self._group = WorkerGroup(who, tasks)
        self._num_assigned = [0] * num_proc
        self._chunk_length = max(1, min(CHUNK_LENGTH, buffer_size // (num_proc * _NUM_MESSAGES)))
        self._waiting: deque[Datapoint] = deque()  # submitted, not sent
        self._results: Any = InArrival()

    def submit(self, datapoint: Datapoint) -> None:
        self._waiting.append(datapoint)
        if len(self._waiting) >= self._chunk_length:
            self._send_waiting()

    def collect(self) -> Datapoint | None:
        while not self._results:
            self._send_waiting()
            self._receive()
        return self._results.popleft()

    def stop(self) -> None:
        self._group.stop()
        for writer in self._writers:
            writer.close()

    def _receive(self) -> None:
        for index, results in self._group.receive():
            self._num_assigned[index] -= len(results)
            self._results.add(index, results)

    def _send_waiting(self) -> None:
        """Send waiting datapoints while a worker has room."""
        while self._waiting:
            index = self._least_busy_with_room()
            if index is None:
                return
            chunk = take_chunk(self._waiting, self._chunk_length, _CHUNK_BYTES)
            self._num_assigned[index] += len(chunk)
            self._results.expect(index, len(chunk))
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


class _OrderedProcessPool(_ProcessPool):
    """A pool that yields results in order. Each datapoint is submitted with its seed."""

    _make = staticmethod(_map_seeded)

    def __init__(self, who: str, num_proc: int, map_func: Callable[[Any], Any], buffer_size: int) -> None:
        super().__init__(who, num_proc, map_func, buffer_size)
        self._results: InOrder = InOrder(num_proc)
        self._idle_share = IdleShare(who, num_proc, buffer_size)

    def _receive(self) -> None:
        num_idle = self._num_assigned.count(0) if self._results.is_holding() else 0
        begin = perf_counter()
        super()._receive()
        self._idle_share.add(num_idle, perf_counter() - begin)
