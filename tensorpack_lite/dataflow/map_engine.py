"""
Base class for maps with worker threads or processes: order, passes, and the number of datapoints in flight.

In:  datapoints of any DataFlow, pulled in the process that iterates.
Out: results of the function, in the order in which they become ready.

::

    ds  --pull-->  submit  [ at most buffer_size datapoints in flight ]  collect  -->  consumer
                      `------------  pool of workers, map_func  ------------'

`ParallelMapData` implements both ends. A subclass supplies the pool in the middle, a `WorkerPool`. Between two calls of
`next` exactly `buffer_size` datapoints are between `submit` and `collect`; each call pulls one datapoint and
returns one result. This bounds the memory and decides how far `ds` runs ahead, so a pool needs no limit.

If the position is recorded, the pool is an `ExactPool`, and `submit` takes numbered datapoints.
"""

from __future__ import annotations

import itertools
import os
import weakref
from abc import ABC, abstractmethod
from typing import Any, Callable, Iterator

from ..utils import logger
from ..utils.checks import check_at_least, check_callable
from .base import DataFlow, DataFlowReentrantGuard, Datapoint, length_or_none, require_workers
from .dropping import DropCounter
from .exact.in_flight import HoldsInFlight
from .observing import separate_pipelines
from .repeat import RepeatedData


class WorkerPool(ABC):
    """
    Workers that apply a function to datapoints. A pool is used from one thread at a time.

    A pool must not refer to its ParallelMapData, because deleting the ParallelMapData stops the pool.

    Attributes:
        numbered: a NumberedSource that numbers the datapoints, if the position is recorded; otherwise None.
    """

    numbered: Any = None

    @abstractmethod
    def submit(self, datapoint: Datapoint) -> None:
        """
        Accept a datapoint to be mapped. Does not wait for workers, and may collect several datapoints into a chunk.

        Args:
            datapoint: must be copied before it is changed or used after this method has returned.
        """

    @abstractmethod
    def collect(self) -> Datapoint | None:
        """
        Wait for the next result, of any datapoint in flight. The caller ensures that there is one.

        Datapoints that `submit` still holds are sent first. With one worker, results have the order of their
        datapoints.

        Returns:
            The return value of the function, which may be None.

        Raises:
            Exception: the function raised it. This counts as the result of one datapoint, and the pool remains usable.
                An error may overtake results that are ready.
            RuntimeError: a worker died. All later calls raise it as well.
        """

    @abstractmethod
    def stop(self) -> None:
        """
        Stop all workers and wait for them; datapoints in flight are lost. Idempotent and thread-safe.

        Called before a second `reset_state` starts new workers, when the DataFlow is deleted, and at interpreter exit.
        """


class ParallelMapData(HoldsInFlight):
    """
    Base class for maps with several workers.

    A subclass defines `_start_pool`, and the class attribute `num_argument` with its name for the number of workers.

    Not strict: `ds` is repeated without end, and a pass never ends. The results are those of
    `RepeatedData(MapData(ds, map_func), -1)`, but a datapoint may move by about `buffer_size` places. None drops a
    datapoint. All passes read one stream: a new iteration continues where the last one stopped.

    Strict: each complete pass yields exactly the results of `MapData(ds, map_func)`, in another order. Just before the
    last one is yielded, the drained buffer is filled with the beginning of the next pass. If a pass is left early, the
    datapoints in flight are discarded and the next pass starts at the beginning of `ds`.

    Length: that of `ds`.
    Order: that of `ds` with one worker, arbitrary with several; always that of `ds` if the position is recorded.
    Process: `ds` runs in the current process, `map_func` in the workers.

    Args:
        ds: the DataFlow whose datapoints are mapped.
        num: number of workers; >= 1.
        map_func: takes a datapoint and returns the new one, or None to drop it (not when strict).
        buffer_size: number of datapoints in flight; >= 1. When strict, at most the length of `ds` is used.
        strict: see above.

    Raises:
        TypeError: `ds` is not a DataFlow, `num` is missing or `map_func` is not callable.
        ValueError: a number is below 1; (while iterating, strict) `map_func` returned None.
        RuntimeError: iterated before `reset_state`, or by two iterators at once; (strict) a pass of `ds` was
            shorter than the buffer or than its length; (not strict) a pass of `ds` was empty, or `map_func`
            dropped all of it, and at least 1000 datapoints in a row.
    """

    num_argument = "num_worker"  # name of the argument in the subclass, for error messages

    def __init__(
        self,
        ds: DataFlow,
        num: int | None,
        map_func: Callable[[Any], Any] | None,
        buffer_size: int,
        strict: bool,
    ) -> None:
        super().__init__(ds)
        who = type(self).__name__
        self.map_func: Any = check_callable(f"{who}: map_func", map_func)
        num_worker: Any = check_at_least(f"{who}: {self.num_argument}", num, 1)  # None is a TypeError
        self.num_worker = int(num_worker)
        self.buffer_size = int(check_at_least(f"{who}: buffer_size", buffer_size, 1))
        self.strict = bool(strict)
        self._guard = DataFlowReentrantGuard()
        self._pool: Any = None  # a WorkerPool, after reset_state
        self._owner: int | None = None  # pid of the process that started the pool
        self._stop_pool: Any = None  # finalizer that stops the pool
        self.repeated: RepeatedData | None = None  # after reset_state, if not strict
        self._drops: Any = None  # a DropCounter, after reset_state
        # iterator over all passes, or when strict over the current pass
        self._source: Iterator[Datapoint] = iter(())
        self._in_flight = 0  # submitted and not collected
        self._at_start = False  # strict: the buffer holds only the beginning of a pass

    @abstractmethod
    def _start_pool(self) -> WorkerPool:
        """Start the workers. The pool must not refer to `self`; see WorkerPool."""

    def reset_state(self) -> None:
        """
        Start the workers and reset `ds`. Workers of an earlier call are stopped first.

        The first iteration fills the buffer, so this method does not wait for datapoints of `ds`.
        """
        self._stop_workers()
        with separate_pipelines():  # workers may be forks of this process
            self._pool = self._start_pool()
        self._numbered = self._pool.numbered
        self._owner = os.getpid()
        self._stop_pool = weakref.finalize(self, self._pool.stop)
        try:
            super().reset_state()
        except BaseException:  # also after Ctrl-C no workers may keep running
            self._stop_workers()
            raise
        self._source = iter(())
        self._in_flight = 0
        self._at_start = False
        self.repeated = None if self.strict else RepeatedData(self._datapoints(), -1)
        self._drops = DropCounter(type(self).__name__, self.map_func, self.repeated)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield results as they become ready."""
        with self._guard:
            require_workers(self, self._owner)
            yield from self._one_pass(num_done == 0) if self.strict else self._without_end()

    def _stop_workers(self) -> None:
        """Stop the workers, if there are any."""
        if self._stop_pool is not None:
            self._stop_pool()
        self._pool = self._numbered = self._stop_pool = None
        self._owner = self._owner and 0  # see require_workers

    def _begin(self) -> None:
        """Fill the empty buffer from the beginning of `ds`; strict mode only."""
        self._begin_source()
        length = length_or_none(self.ds)
        window = self.buffer_size if length is None else min(self.buffer_size, length)
        for datapoint in itertools.islice(self._source, window):
            self._pool.submit(datapoint)
            self._in_flight += 1
        if self._in_flight < window:
            raise RuntimeError(
                f"{type(self).__name__}: a pass of {type(self.ds).__name__} had {self._in_flight} datapoints, fewer than "
                f"the {window} that strict mode keeps in flight. Decrease buffer_size, or correct len(ds)."
            )
        self._at_start = True

    def _without_end(self) -> Iterator[Datapoint]:
        submit, receive, buffer_size, drops = self._pool.submit, self._receive, self.buffer_size, self._drops
        while True:
            for datapoint in self._source:
                submit(datapoint)
                self._in_flight += 1
                while self._in_flight > buffer_size:
                    result = receive()
                    while result is None:
                        drops.drop()
                        if not drops.saw_whole_pass():
                            break
                        if self._in_flight == 0:
                            raise drops.error()
                        # those in flight may include a datapoint of the pass that seems to have none
                        result = receive()
                    else:
                        drops.kept = True
                        yield result
            # reached at the first iteration, and after an error of `ds` ended the source
            assert self.repeated is not None, "bug: reset_state() was not called, or this is strict"
            self._source = iter(self.repeated)

    def _one_pass(self, is_new: bool) -> Iterator[Datapoint]:
        if self._at_start and not is_new:
            return  # the whole pass was yielded before the position was saved
        if is_new and not self._at_start:
            self._discard()
            self._begin()
        self._at_start = False
        submit, receive = self._pool.submit, self._receive_strictly
        for datapoint in self._source:
            submit(datapoint)
            self._in_flight += 1
            yield receive()
        while self._in_flight > 1:
            yield receive()
        if self._in_flight == 1:  # 0: `ds` is empty
            last = receive()
            self._begin()
            yield last

    def _receive(self) -> Datapoint | None:
        try:
            result = self._pool.collect()
        except Exception:  # an error is the result of one datapoint; an interruption such as Ctrl-C is not
            self._in_flight -= 1
            raise
        self._in_flight -= 1
        return result

    def _receive_strictly(self) -> Datapoint:
        result = self._receive()
        if result is None:
            raise ValueError(
                f"{type(self).__name__}: map_func returned None, but with strict=True it cannot drop a datapoint. Return "
                f"the datapoint, drop it before or after this stage, or use strict=False."
            )
        return result

    def _discard(self) -> None:
        """Wait for the datapoints in flight of a pass that was left early, and discard them."""
        while self._in_flight > 0:
            try:
                self._receive()
            except Exception as error:  # noqa: BLE001 (the result is discarded; a broken pool raises again when used)
                logger.info(f"{type(self).__name__}: discarded an error of a pass that was left early: {error}")
