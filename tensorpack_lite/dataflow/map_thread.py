"""
A function applied to datapoints by threads.

In:  datapoints of any DataFlow.
Out: what the function makes of them, in the order in which it got ready.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from copy import copy
from typing import Any, Callable

from ..utils import logger
from .base import DataFlow, Datapoint
from .failure import stage_error
from .map_engine import ParallelMapData, WorkerPool

__all__ = ["MultiThreadMapData"]

_STOP = object()  # a job: the worker ends
_FAILED = object()  # a result: there is an error more in the list of errors
_JOIN_SECONDS = 5  # how long to wait for a function that is under way when its thread is stopped


class MultiThreadMapData(ParallelMapData):
    """
    Apply a function to each datapoint, in threads: for functions that wait (files, network) or that give the
    interpreter's lock back while they compute (NumPy, OpenCV).

    Not strict: `ds` is repeated without end, and a pass never ends. Bound it from outside: `FixedSizeData`, or
    `steps_per_epoch`. Strict: each pass yields exactly what `MapData(ds, map_func)` does. In both the order is that of
    getting ready, and exactly `buffer_size` datapoints are in flight between two calls of `next`.

    Length: that of `ds`.
    Order: that of `ds` with one thread, arbitrary with several.
    Process: stays in this one: `ds` runs in the thread that iterates, `map_func` in `num_thread` others.
        `reset_state` starts them, and may be called again, which starts new ones.

    Args:
        ds: the DataFlow whose datapoints are mapped.
        num_thread: how many threads; >= 1.
        map_func: takes a shallow copy of a datapoint and returns the new one, or None to drop it (not when strict). It is
            called by several threads at once.
        buffer_size: datapoints in flight; >= 1. When strict it is cut to the length of `ds`.
        strict: see above.

    Raises:
        TypeError: `ds` is no DataFlow, `num_thread` is missing or `map_func` cannot be called.
        ValueError: a number is below 1; when strict, and iterating, `map_func` returned None.
        RuntimeError: iterated twice at once, or before `reset_state`; when strict, a pass of `ds` was shorter than
            the buffer, or than its length; when not strict, a pass of `ds` was empty, or
            `map_func` dropped all of it (and at least 1000 datapoints in a row).

    Example:
        >>> MultiThreadMapData(df, 8, lambda dp: [download(dp[0]), dp[1]], buffer_size=100)  # doctest: +SKIP

    Note:
        An exception of `map_func` is raised by the `next` that follows, before results that are ready; its text begins
        with the stage and the thread, its cause is the original with the thread's traceback.

    tensorpack: same; there an exception of `map_func` hangs the consumer, and a second `reset_state` takes five
    seconds.
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
        return _ThreadPool(type(self).__name__, self.num_worker, self.map_func)


class _ThreadPool(WorkerPool):
    """Threads between two queues. What the queues hold is bounded by whoever submits."""

    def __init__(self, stage: str, num_thread: int, map_func: Callable[[Any], Any]) -> None:
        self._stage = stage
        self._map_func = map_func
        self._jobs: Any = queue.SimpleQueue()
        self._results: Any = queue.SimpleQueue()
        self._errors: deque[tuple[int, BaseException]] = deque()
        self._threads = [
            threading.Thread(target=self._work, args=(index,), name=f"{stage}-{index}", daemon=True)
            for index in range(num_thread)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, datapoint: Datapoint) -> None:
        self._jobs.put(copy(datapoint))  # copied, because the source may keep the original

    def collect(self) -> Any:
        while True:
            if self._errors:
                index, error = self._errors.popleft()
                where = f"{self._stage}: map_func failed in worker {index} of {len(self._threads)} (pid {os.getpid()})"
                raise stage_error(error, where)
            result = self._results.get()
            if result is not _FAILED:  # its error comes now, or came before its turn
                return result

    def stop(self) -> None:
        while not self._jobs.empty():
            try:
                self._jobs.get_nowait()
            except queue.Empty:
                break
        for _ in self._threads:
            self._jobs.put(_STOP)
        for thread in self._threads:
            # the last reference was dropped in the worker itself
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)
            if thread.is_alive() and thread is not threading.current_thread():
                logger.warning(f"{thread.name}: map_func does not return; its thread is left behind.")

    def _work(self, index: int) -> None:
        jobs, results, map_func = self._jobs, self._results, self._map_func
        while True:
            datapoint = jobs.get()
            if datapoint is _STOP:
                return
            try:
                result = map_func(datapoint)
            except BaseException as error:  # noqa: BLE001 (the consumer raises it, whatever it is)
                self._errors.append((index, error))
                result = _FAILED
            results.put(result)
            datapoint = result = None  # nothing is kept alive while this thread waits
