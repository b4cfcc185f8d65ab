"""
DataFlows that run ahead of their consumer, in threads.

In:  a function that builds a DataFlow.
Out: the datapoints of several such DataFlows, in the order in which they got ready.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Iterator

from ..utils import logger
from ..utils.errors import type_error
from ..utils.handoff import HandoffQueue
from .base import DataFlow, Datapoint, NotResetError, require_dataflow, require_process, reset_each_once
from .failure import stage_error
from .repeat import RepeatedData

__all__ = ["MultiThreadPrefetchData", "MultiThreadRunner"]

_JOIN_SECONDS = 5  # how long to wait for a DataFlow that is under way when its thread is stopped


class MultiThreadRunner(DataFlow):
    """
    Run several DataFlows, each in a thread of its own, repeated without end, into one queue.

    Length: that of one of the DataFlows: a pass yields so many datapoints; without a length it never ends. Passes are
        cuts of one endless stream: the next one goes on where the last one stopped.
    Order: that of the DataFlow with one thread, arbitrary with several. Each thread iterates everything, so with several
        a pass may hold a datapoint twice: use them with data in a random order.
    Process: stays in this one, in `num_thread` threads, which `reset_state` starts.

    Args:
        get_df: builds a DataFlow; called `num_thread` times, here and now. Two threads must not share one with state.
        num_prefetch: datapoints that wait in the queue; >= 1. Each thread holds one more.
        num_thread: how many threads; >= 1.

    Raises:
        TypeError: `get_df` cannot be called, or returns no DataFlow.
        ValueError: a number is below 1.
        RuntimeError: `reset_state` was called twice, or not at all before iterating.

    Example:
        >>> MultiThreadRunner(lambda: Recordings("train"), num_prefetch=100, num_thread=4)  # doctest: +SKIP

    Note:
        An exception in a thread is raised by the `next` that follows, before datapoints that are ready, and by all later
        ones: the other threads stop. Its text begins with the stage and the thread, its cause is the original.

    tensorpack: same; there each DataFlow is reset twice, and an exception of one hangs the consumer.
    """

    def __init__(self, get_df: Callable[[], DataFlow], num_prefetch: int, num_thread: int) -> None:
        if not callable(get_df):
            raise type_error("MultiThreadRunner: get_df", "a function that builds a DataFlow", get_df)
        if num_prefetch < 1 or num_thread < 1:
            raise ValueError(
                f"MultiThreadRunner: num_prefetch and num_thread must be at least 1, got {num_prefetch} and {num_thread}."
            )
        self.num_prefetch = int(num_prefetch)
        self.num_thread = int(num_thread)
        self.dataflows = [require_dataflow(self, get_df()) for _ in range(self.num_thread)]
        self._threads: Any = None  # a _Threads after reset_state

    def __len__(self) -> int:
        return len(self.dataflows[0])

    def reset_state(self) -> None:
        """Reset the DataFlows, each once and all in this thread, and start the threads."""
        if self._threads is not None:
            raise RuntimeError(
                "MultiThreadRunner: reset_state() was called twice. Its threads run already; whoever consumes a DataFlow "
                "resets it, so the second call is probably yours to remove."
            )
        reset_each_once(self.dataflows)
        self._threads = _Threads(self.dataflows, self.num_prefetch)
        weakref.finalize(self, self._threads.stop)

    def __iter__(self) -> Iterator[Datapoint]:
        if self._threads is None:
            raise NotResetError(
                "MultiThreadRunner: has no threads, because reset_state() was not called. Call it once, in the process "
                "that iterates, before the first iteration."
            )
        require_process(self, self._threads.owner)
        take = self._threads.take
        try:
            size = len(self)
        except NotImplementedError:
            size = 0
        if size == 0:
            while True:
                yield take()
        for _ in range(size):
            yield take()


MultiThreadPrefetchData = MultiThreadRunner  # tensorpack's name of old


class _Threads:
    """The threads, and the bounded queue between them and the consumer. Holds no reference to the runner."""

    def __init__(self, dataflows: list[DataFlow], num_prefetch: int) -> None:
        self._ready: HandoffQueue[Datapoint] = HandoffQueue(num_prefetch)
        self.owner = os.getpid()
        self._threads = [
            threading.Thread(
                target=self._run, args=(index, ds), name=f"MultiThreadRunner-{index}", daemon=True
            )
            for index, ds in enumerate(dataflows)
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> Datapoint:
        """Wait for the next datapoint, or raise the first error of a thread."""
        taken = self._ready.take()
        if taken:
            return taken[0]
        assert self._ready.error is not None, "bug: the threads were stopped while somebody iterates"
        raise self._ready.error

    def stop(self) -> None:
        """Stop the threads and wait for them."""
        if os.getpid() != self.owner:
            return  # in a fork of the owner the threads do not run, and one of them may have held the queue's lock
        self._ready.stop()
        if threading.current_thread() in self._threads:
            return  # the last reference was dropped in a worker, which the others may be waiting for
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
            if thread.is_alive():
                logger.warning(f"{thread.name}: its DataFlow does not yield; its thread is left behind.")

    def _run(self, index: int, ds: DataFlow) -> None:
        try:
            for datapoint in RepeatedData(ds, -1):
                if not self._ready.put([datapoint]):
                    return
                del datapoint  # not kept alive while this thread makes or awaits the next one
        except BaseException as error:  # noqa: BLE001 (the consumer raises it, whatever it is)
            where = f"MultiThreadRunner: its DataFlow failed in worker {index} of {len(self._threads)} (pid {self.owner})"
            self._ready.stop(stage_error(error, where))
