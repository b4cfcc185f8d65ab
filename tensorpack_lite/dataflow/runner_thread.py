"""
DataFlows that run in threads, ahead of their consumer.

In:  a function that builds a DataFlow.
Out: the datapoints of several such DataFlows, in the order in which they become ready.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable, Iterable, Iterator, Sequence

from ..utils import logger
from ..utils.checks import check_at_least, check_callable
from ..utils.handoff import HandoffQueue
from .base import DataFlow, Datapoint, require_dataflow, reset_each_once, reset_twice_error, stop_workers
from .exact.runner import EndlessRunner, WorkersInTurn, begin_at, run_and_report, states_to_restore
from .exact.stage_position import StagePosition
from .failure import stage_error
from .meter import current_meter
from .observing import separate_pipelines
from .repeat import RepeatedData

_JOIN_SECONDS = 5  # how long `stop` waits for the next datapoint of a thread


class MultiThreadRunner(EndlessRunner):
    """
    DataFlow that runs several DataFlows in threads that put their datapoints into one queue.

    Length: that of the first DataFlow. All passes read one endless stream, so a pass continues where the last one
        stopped. If the DataFlow has no length, a pass never ends.
    Order: that of the DataFlow with one thread, arbitrary with several. Each thread repeats all of its
        DataFlow, so with several threads a pass may contain a datapoint twice. Use them with data in a random
        order. If the position is recorded, the threads take turns.
    Process: runs in the current process, in `num_thread` threads, which `reset_state` starts.

    Args:
        get_df: function that builds a DataFlow. The constructor calls it `num_thread` times. It must return a
            new object each time, unless the DataFlow has no state.
        num_prefetch: number of datapoints that wait in the queue; >= 1. Each thread holds one more.
        num_thread: number of threads; >= 1.

    Raises:
        TypeError: `get_df` is not callable, or does not return a DataFlow.
        ValueError: a number is below 1.
        RuntimeError: `reset_state` was called twice, or not at all before iterating.

    Example:
        >>> MultiThreadRunner(lambda: Recordings("train"), num_prefetch=100, num_thread=4)  # doctest: +SKIP

    Note:
        An exception in a thread stops all threads. It is raised by the next call of `next`, before datapoints that are
        ready, and by all later calls. Its message starts with the stage and the thread, and its cause is the original.
    """

    def __init__(self, get_df: Callable[[], DataFlow], num_prefetch: int, num_thread: int) -> None:
        check_callable("MultiThreadRunner: get_df", get_df, "a function that builds a DataFlow")
        self.num_prefetch = int(check_at_least("MultiThreadRunner: num_prefetch", num_prefetch, 1))
        self.num_thread = int(check_at_least("MultiThreadRunner: num_thread", num_thread, 1))
        self.dataflows = [require_dataflow(self, get_df()) for _ in range(self.num_thread)]
        self._threads: Any = None  # a _Threads after reset_state

    def __len__(self) -> int:
        return len(self.dataflows[0])

    def reset_state(self) -> None:
        """Reset each DataFlow once, in the calling thread, and start the threads."""
        if self._threads is not None:
            raise reset_twice_error("MultiThreadRunner")
        with separate_pipelines():
            self._threads = self._start(self._stage_position)
        self._owner = self._threads.owner
        weakref.finalize(self, self._threads.stop)

    def _stop_workers(self) -> None:
        if self._threads is not None:
            self._threads.stop()
        self._threads, self._owner = None, self._owner and 0  # see require_workers
        for ds in self.dataflows:
            stop_workers(ds)

    def _start(self, position: StagePosition | None) -> _Threads:
        if position is None or self._shares_dataflows():
            reset_each_once(self.dataflows)
            streams: list[Iterable[list[Datapoint]]] = [_run_without_end(ds) for ds in self.dataflows]
            return _Threads(self.dataflows, streams, [HandoffQueue(self.num_prefetch)] * self.num_thread)
        saved = position.own_state_to_restore()
        begins = states_to_restore("MultiThreadRunner", self.num_thread, saved)
        flows = [begin_at(ds, state) for ds, (state, _) in zip(self.dataflows, begins)]
        streams = [run_and_report(flow, num_dropped) for flow, (_, num_dropped) in zip(flows, begins)]
        size = -(-self.num_prefetch // self.num_thread)
        threads = _Threads(flows, streams, [HandoffQueue(size) for _ in flows])
        self._in_turn = WorkersInTurn(self.num_thread, threads.take, saved)
        return threads

    def _shares_dataflows(self) -> bool:
        return len({id(ds) for ds in self.dataflows}) < self.num_thread

    def _resume_level(self) -> tuple[str, str]:
        if self._in_turn is None:
            return "none", "its threads share one DataFlow; return a new one from get_df"
        return super()._resume_level()

    def _stream(self) -> Iterator[Datapoint]:
        return self._threads.stream()


MultiThreadPrefetchData = MultiThreadRunner  # old name in tensorpack


def _run_without_end(ds: DataFlow) -> Iterator[list[Datapoint]]:
    for datapoint in RepeatedData(ds, -1):
        yield [datapoint]
        del datapoint  # free the memory before waiting for the next one


class _Threads:
    """
    Threads that fill bounded queues. Holds no reference to the runner, whose deletion stops the threads.

    Args:
        flows: the DataFlow of each thread, already reset.
        streams: what each thread puts into its queue.
        queues: one for each thread; several threads may have the same.
    """

    def __init__(
        self,
        flows: Sequence[DataFlow],
        streams: Sequence[Iterable[list[Datapoint]]],
        queues: Sequence[HandoffQueue[Datapoint]],
    ) -> None:
        self._meter = current_meter()  # of the stage
        self._meters = [getattr(flow, "_meter", None) for flow in flows]
        self._queues = queues
        self.owner = os.getpid()
        self._threads = [
            threading.Thread(target=self._run, args=(index, stream), name=f"MultiThreadRunner-{index}", daemon=True)
            for index, stream in enumerate(streams)
        ]
        for thread in self._threads:
            thread.start()

    def stream(self) -> Iterator[Datapoint]:
        """Yield datapoints of the first queue as they become ready, without end, or raise the first error of a thread."""
        while True:
            yield self.take(0).pop()  # so that this frame does not keep the datapoint alive

    def take(self, index: int) -> list[Datapoint]:
        """
        Wait for the next datapoint in a queue.

        Raises:
            BaseException: the first error of a thread.
        """
        queue = self._queues[index]
        taken = queue.take(self._meter)
        if not taken:
            assert queue.error is not None, "bug: the threads were stopped during iteration"
            raise queue.error
        return taken

    def stop(self) -> None:
        """Stop the threads and wait for them."""
        if os.getpid() != self.owner:
            return  # a fork has no running threads, and may have inherited a queue's lock in a locked state
        self._end()
        if threading.current_thread() in self._threads:
            return  # one of the DataFlows deleted the last reference; other threads may be waiting for this one
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
            if thread.is_alive():
                logger.warning(
                    f"{thread.name}: still running, because its DataFlow did not yield within {_JOIN_SECONDS} s."
                )

    def _end(self, error: BaseException | None = None) -> None:
        for queue in self._queues:
            queue.stop(error)

    def _run(self, index: int, stream: Iterable[list[Datapoint]]) -> None:
        queue, meter = self._queues[index], self._meters[index]
        try:
            for datapoints in stream:
                if not queue.put(datapoints, meter=meter):
                    return
                del datapoints  # free the memory before waiting for the next one
        except BaseException as error:  # noqa: BLE001 (raised in the consumer)
            where = (
                f"MultiThreadRunner: its DataFlow failed in worker {index} of {len(self._threads)} (pid {self.owner})"
            )
            self._end(stage_error(error, where))
