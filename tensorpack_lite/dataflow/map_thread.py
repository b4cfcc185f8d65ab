"""
Worker threads that map datapoints.

In:  datapoints of any DataFlow.
Out: results of the function, in the order in which they become ready.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from contextlib import suppress
from copy import copy
from typing import Any, Callable

from ..utils import logger
from .base import DataFlow, Datapoint
from .exact.parallel_map import ExactPool, IdleShare
from .failure import describe_failure, function_name, stage_error
from .map_engine import ParallelMapData, WorkerPool
from .meter import Meter, current_meter

_STOP = object()  # a job that ends the worker
_FAILED = object()  # a result whose error is in the list of errors
_JOIN_SECONDS = 5  # how long `stop` waits for a running function


class MultiThreadMapData(ParallelMapData):
    """
    DataFlow that applies a function to each datapoint in threads.

    Suited to functions that wait for files or the network, or that release the GIL while they compute (NumPy, OpenCV).

    Not strict: `ds` is repeated without end, and a pass never ends. Limit it with `FixedSizeData` or
    `steps_per_epoch`. Strict: each pass yields exactly the results of `MapData(ds, map_func)`. In both modes results
    are yielded as they become ready, and exactly `buffer_size` datapoints are in flight between two calls of `next`.

    Length: that of `ds`.
    Order: that of `ds` with one thread, arbitrary with several.
    Process: runs in the current process: `ds` in the thread that iterates, `map_func` in `num_thread` others.
        `reset_state` starts the threads. A second call replaces them.

    Args:
        ds: the DataFlow whose datapoints are mapped.
        num_thread: number of threads; >= 1.
        map_func: takes a shallow copy of a datapoint and returns the new one, or None to drop it (not when strict).
            Several threads call it at once.
        buffer_size: number of datapoints in flight; >= 1. When strict, at most the length of `ds` is used.
        strict: see above.

    Raises:
        TypeError: `ds` is not a DataFlow, `num_thread` is missing or `map_func` is not callable.
        ValueError: a number is below 1; (while iterating, strict) `map_func` returned None.
        RuntimeError: iterated before `reset_state`, or by two iterators at once; (strict) a pass of `ds` was
            shorter than the buffer or than its length; (not strict) a pass of `ds` was empty, or `map_func`
            dropped all of it, and at least 1000 datapoints in a row.

    Example:
        >>> MultiThreadMapData(df, 8, lambda dp: [download(dp[0]), dp[1]], buffer_size=100)  # doctest: +SKIP

    Note:
        An exception in `map_func` is raised by the next call of `next`, before results that are ready. Its message
        starts with the stage and the thread, and its cause is the original exception with the thread's traceback.
    """

    num_argument = "num_thread"

    def __init__(
        self,
        ds: DataFlow,
        num_thread: int | None = None,
        map_func: Callable[[Any], Any] | None = None,
        *,
        buffer_size: int = 200,
        strict: bool = False,
    ) -> None:
        super().__init__(ds, num_thread, map_func, buffer_size, strict)

    def _start_pool(self) -> WorkerPool:
        arguments = type(self).__name__, self.num_worker, self.map_func
        if self._stage_position is None:
            return _ThreadPool(*arguments)
        return ExactPool(_OrderedThreadPool(*arguments, self.buffer_size), self.ds)

    def _resume_level(self) -> tuple[str, str]:
        return "state", "map_func is assumed to draw no random numbers, because threads share generators"


class _ThreadPool(WorkerPool):
    """Threads between two queues. ParallelMapData bounds what the queues hold."""

    def __init__(self, stage: str, num_thread: int, map_func: Callable[[Any], Any]) -> None:
        self._stage = stage
        self._map_func = map_func
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._errors: deque[tuple[int, int, BaseException]] = deque()
        self._meter = current_meter() or Meter(stage)  # of the stage
        self._meters = [Meter(function_name(map_func)) for _ in range(num_thread)]
        self._meter.threads += self._meters
        self._threads = [
            threading.Thread(target=self._work, args=(index,), name=f"{stage}-{index}", daemon=True)
            for index in range(num_thread)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, datapoint: Datapoint) -> None:
        self._jobs.put(copy(datapoint))  # a copy, because the source may keep the original

    def collect(self) -> Datapoint | None:
        while True:
            if self._errors:
                raise self._located(*self._errors.popleft())
            result = self._take_result()
            if result is not _FAILED:  # its error is raised next, or was raised before other results
                return result

    def _take_result(self) -> Any:
        if not self._results.empty():
            return self._results.get()
        self._meter.begin_wait()
        try:
            return self._results.get()
        finally:
            self._meter.end_wait()

    def _located(self, index: int, number: int, error: BaseException) -> BaseException:
        failure = describe_failure(self._map_func, error)
        worker = f"worker {index} of {len(self._threads)} (pid {os.getpid()}) on its datapoint {number}"
        return stage_error(error, f"{self._stage}: map_func {failure} in {worker}")

    def stop(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
        for _ in self._threads:
            self._jobs.put(_STOP)
        for thread in self._threads:
            if thread is threading.current_thread():
                continue  # map_func itself deleted the last reference to the DataFlow
            thread.join(_JOIN_SECONDS)
            if thread.is_alive():
                logger.warning(
                    f"{thread.name}: still running, because map_func did not return within {_JOIN_SECONDS} s."
                )

    def _work(self, index: int) -> None:
        jobs, results, meter = self._jobs, self._results, self._meters[index]
        while True:
            meter.begin_wait()
            job = jobs.get()
            meter.end_wait()
            if job is _STOP:
                return meter.end()
            results.put(self._run(job, index))
            job = None  # free the memory before waiting

    def _run(self, job: Any, index: int) -> Any:
        """Map the datapoint of a job in worker `index`; return the result."""
        try:
            return self._meters[index].call(self._map_func, job)
        except BaseException as error:  # noqa: BLE001 (raised in the consumer)
            self._errors.append((index, self._meters[index].read().count, error))
            return _FAILED


class _OrderedThreadPool(_ThreadPool):
    """A pool that yields results, and raises errors, in order."""

    def __init__(self, stage: str, num_thread: int, map_func: Callable[[Any], Any], buffer_size: int) -> None:
        self._num_submitted = self._num_given = 0
        self._ready: dict[int, Any] = {}  # results and errors that wait for an earlier one
        self._idle_share = IdleShare(stage, num_thread, buffer_size)
        super().__init__(stage, num_thread, map_func)

    def submit(self, datapoint: Datapoint) -> None:
        self._jobs.put((self._num_submitted, copy(datapoint)))
        self._num_submitted += 1

    def collect(self) -> Datapoint | None:
        while self._num_given not in self._ready:
            num_mapping = self._num_submitted - self._num_given - len(self._ready)
            num_idle = max(0, len(self._threads) - num_mapping) if self._ready else 0
            begin = time.perf_counter()
            number, outcome = self._take_result()
            self._idle_share.add(num_idle, time.perf_counter() - begin)
            self._ready[number] = outcome
        result, failure = self._ready.pop(self._num_given)
        self._num_given += 1
        if failure is not None:
            raise self._located(*failure)
        return result

    def _run(self, job: Any, index: int) -> Any:
        number, datapoint = job
        try:
            return number, (self._meters[index].call(self._map_func, datapoint), None)
        except BaseException as error:  # noqa: BLE001 (raised in the consumer)
            return number, (None, (index, self._meters[index].read().count, error))
