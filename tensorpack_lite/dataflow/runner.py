"""
A DataFlow that runs in other processes, ahead of the one that consumes it.

In:  a DataFlow; each worker process gets a copy of its own, resets it and repeats it without end.
Out: the datapoints of all workers, mixed, in this process.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import count
from typing import Any, Iterator

from .base import DataFlow, DataFlowReentrantGuard, Datapoint, ProxyDataFlow, require_process
from .process.channel import MAX_SLOTS
from .process.group import Settings, WorkerGroup
from .process.worker import CHUNK_LENGTH, Task
from .repeat import run_without_end

__all__ = [
    "MultiProcessPrefetchData",
    "MultiProcessRunner",
    "MultiProcessRunnerZMQ",
    "PrefetchData",
    "PrefetchDataZMQ",
]


class _ProcessRunner(ProxyDataFlow):
    """What the two runners share: they differ in the names of their arguments, and in the guard."""

    def __init__(self, ds: DataFlow, num_proc: int, max_ahead: int) -> None:
        super().__init__(ds)
        self.num_proc = num_proc
        self._max_ahead = max_ahead
        self._group: WorkerGroup | None = None  # after reset_state, with workers of the process `_owner`
        self._owner = 0
        self._received: deque[Datapoint] = deque()

    def reset_state(self) -> None:
        """
        Start the workers; each resets its copy of `ds`.

        Raises:
            RuntimeError: called a second time.
            pickle.PicklingError: the start method is not fork, and `ds` cannot be pickled.
        """
        name = type(self).__name__
        if self._group is not None:
            raise RuntimeError(f"{name}: reset_state() was called twice; its workers run already.")
        self._owner = os.getpid()
        task = Task(f"in the DataFlow {type(self.ds).__name__}", run_without_end, (self.ds,))
        ahead = self._max_ahead
        settings = Settings(max(2, min(MAX_SLOTS, ahead)), ahead, min(CHUNK_LENGTH, ahead))
        self._group = WorkerGroup(name, [task] * self.num_proc, settings)

    def _take(self) -> Iterator[Datapoint]:
        """Yield one pass: as many datapoints as `ds` has, or without end."""
        if self._group is not None:
            require_process(self, self._owner)
        for _ in self._numbers_of_a_pass():
            while not self._received:
                for _, datapoints in self._running().receive():
                    self._received.extend(datapoints)
            yield self._received.popleft()

    def _numbers_of_a_pass(self) -> Any:
        try:
            length = len(self.ds)
        except NotImplementedError:
            length = 0
        return range(length) if length > 0 else count()

    def _running(self) -> WorkerGroup:
        if self._group is None:
            raise RuntimeError(
                f"{type(self).__name__}: its workers are not started. Call reset_state() once, in the process that "
                f"iterates, before the first iteration (trainers and InputSources do it for you)."
            )
        return self._group


class MultiProcessRunnerZMQ(_ProcessRunner):
    """
    Run a DataFlow in worker processes, which send their datapoints here.

    Large arrays come through shared memory and are handed out without a copy where that can be; small datapoints come
    many at a time. (ZMQ is in the name only: on one machine there is something faster.)

    Length: that of `ds`. A pass is a cut of one endless stream: what comes after it, or after a `break`, comes in the
        next pass. If `ds` has no length, a pass has no end.
    Order: one worker: that of `ds`. Several: each runs all of `ds`, so datapoints come `num_proc` times as often, and
        mixed. That is right for random data, and wrong for testing.
    Process: starts `num_proc` processes in `reset_state`, by the start method of multiprocessing. They end with this
        object and with this process, however it ends. With `fix_rng_seed` each has a random stream of its own, the same
        in every run.

    Args:
        ds: the DataFlow. With the start methods spawn and forkserver it must be picklable.
        num_proc: how many workers.
        hwm: how far a worker runs ahead: at most `hwm` datapoints wait to be sent (the worker holds one more), and at
            most `hwm` messages, and at most 16, are on their way. A message is one datapoint, or up to 64 small ones.

    Raises:
        ValueError: `num_proc` or `hwm` is below 1.
        BaseException: (while iterating) what `ds` raised in a worker: the same type, with the worker's traceback as its
            cause; WorkerDied (a RuntimeError) when a worker was killed or crashed. The workers are ended then.
        RuntimeError: (while iterating) iterated twice at once.

    Note:
        A worker uses up to 256 MB of shared memory; `$TENSORPACK_SHARED_MEMORY_MB` sets another limit, 0 means none.
        A message that does not fit goes through a socket, more slowly, and a warning says so once.
        Handed out arrays may be kept and changed: their memory is used again only after they are gone.

    Source: `tests/benchmarks/processes.py` measures it.
    tensorpack: same; there a worker that is killed hangs the consumer, and workers outlive a killed parent.
    """

    def __init__(self, ds: DataFlow, num_proc: int = 1, hwm: int = 50) -> None:
        _require_positive("MultiProcessRunnerZMQ", num_proc=num_proc, hwm=hwm)
        super().__init__(ds, num_proc, hwm)
        self._guard = DataFlowReentrantGuard()

    def __iter__(self) -> Iterator[Datapoint]:
        with self._guard:
            yield from self._take()


class MultiProcessRunner(_ProcessRunner):
    """
    Run a DataFlow in worker processes; the older of two names for nearly the same.

    Length: as MultiProcessRunnerZMQ.
    Order: as MultiProcessRunnerZMQ.
    Process: as MultiProcessRunnerZMQ.

    Args:
        ds: the DataFlow. With the start methods spawn and forkserver it must be picklable.
        num_prefetch: how many datapoints wait to be sent, in all workers together; each worker holds one more, and
            others are on their way.
        num_proc: how many workers.

    Raises:
        ValueError: `num_prefetch` or `num_proc` is below 1.
        BaseException: (while iterating) as MultiProcessRunnerZMQ.

    Note:
        May be iterated twice at once; the iterators then share one stream.

    tensorpack: same; there it is much slower than MultiProcessRunnerZMQ, and an error of a worker hangs the consumer.
    """

    def __init__(self, ds: DataFlow, num_prefetch: int, num_proc: int) -> None:
        _require_positive("MultiProcessRunner", num_prefetch=num_prefetch, num_proc=num_proc)
        super().__init__(ds, num_proc, -(-num_prefetch // num_proc))
        self.num_prefetch = num_prefetch

    def __iter__(self) -> Iterator[Datapoint]:
        return self._take()


MultiProcessPrefetchData = MultiProcessRunner
PrefetchData = MultiProcessRunner
PrefetchDataZMQ = MultiProcessRunnerZMQ


def _require_positive(who: str, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{who}: {name} must be at least 1, got {number}.")
