"""
What a function applied by many workers has in common, be they threads or processes: order, passes, what is in flight.

In:  datapoints of any DataFlow, pulled in the process that iterates.
Out: what the function made of them, in the order in which it got ready.

::

    ds  --pull-->  submit  [ at most buffer_size datapoints are in here ]  collect  -->  consumer
                      `------------  pool of workers, map_func  ------------'

Here is the left and the right side, the same for all; the pool in the middle comes from a subclass (`WorkerPool`).
Between two calls of `next` exactly `buffer_size` datapoints are between `submit` and `collect`, and a call pulls one
and gives one back. That alone bounds the memory and decides how far `ds` runs ahead; pools need no bound of their own.
"""

from __future__ import annotations

import itertools
import os
import weakref
from abc import ABC, abstractmethod
from typing import Any, Callable, Iterator

from ..utils import logger
from ..utils.errors import type_error
from .base import DataFlow, DataFlowReentrantGuard, Datapoint, NotResetError, ProxyDataFlow, require_process
from .dropping import DropWatch
from .repeat import RepeatedData

__all__ = ["ParallelMapData", "WorkerPool"]


class WorkerPool(ABC):
    """
    Workers that apply a function to datapoints; used from one thread at a time.

    A pool holds no reference to the ParallelMapData that uses it: it is stopped when that one is dropped.
    """

    @abstractmethod
    def submit(self, datapoint: Datapoint) -> None:
        """
        Take a datapoint to be mapped. Does not wait for workers, and may gather several before it hands them on.

        Args:
            datapoint: must not be changed, nor used after this returns unless it is copied.
        """

    @abstractmethod
    def collect(self) -> Any:
        """
        Wait for the next result: of any datapoint that was submitted and not collected yet, of which there is one.

        What `submit` still holds back is handed on before this waits. With one worker results come in the order of
        their datapoints.

        Returns:
            What the function returned; None is a result like any other.

        Raises:
            Exception: the function raised. This counts as the result of one datapoint, and the pool goes on. It need
                not wait for its turn: an error should overtake results that are ready.
            RuntimeError: a worker died. From then on every call raises it.
        """

    @abstractmethod
    def stop(self) -> None:
        """
        End all workers and wait until they are gone; what is in flight is lost. Idempotent, and safe from any thread.

        Called before the workers are started anew, when the DataFlow is dropped, and at the exit of the interpreter.
        """


class ParallelMapData(ProxyDataFlow):
    """
    Base of the maps with workers.

    A subclass defines `_start_pool`, and the class attribute `num_argument` if its workers have another name.

    Not strict: `ds` is repeated without end, and one pass never ends. The results are those of
    `RepeatedData(MapData(ds, map_func), -1)` in another order; how far a datapoint moves is about `buffer_size`. None
    drops a datapoint. All passes are cuts of one stream: a new iteration goes on where the last one stopped.

    Strict: each complete pass yields exactly what `MapData(ds, map_func)` would, in another order. At its end the
    buffer is drained, and filled with the beginning of the next pass just before the last datapoint is yielded. A pass
    that is left early is forgotten: the next one begins at the beginning of `ds`, after what was in flight is thrown
    away.

    Length: that of `ds`.
    Order: that of `ds` with one worker, arbitrary with several.
    Process: `ds` runs in this process, `map_func` in the workers.

    Args:
        ds: the DataFlow whose datapoints are mapped.
        num: of workers; >= 1.
        map_func: takes a datapoint and returns the new one, or None to drop it (not when strict).
        buffer_size: datapoints in flight; >= 1. When strict it is cut to the length of `ds`.
        strict: see above.

    Raises:
        TypeError: `ds` is no DataFlow, `num` is missing or `map_func` cannot be called.
        ValueError: a number is below 1; when strict, and iterating, `map_func` returned None.
        RuntimeError: iterated twice at once, or before `reset_state`; when strict, a pass of `ds` was shorter than
            the buffer, or than its length; when not strict, a pass of `ds` was empty, or `map_func` dropped all of it
            (and at least 1000 datapoints in a row).
    """

    num_argument = "num_worker"  # how the argument is called by users of the subclass

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
        if num is None:
            raise type_error(f"{who}: {self.num_argument}", "a number of workers", num)
        if not callable(map_func):
            raise type_error(f"{who}: map_func", "a function", map_func)
        if num < 1 or buffer_size < 1:
            raise ValueError(
                f"{who}: {self.num_argument} and buffer_size must be at least 1, got {num} and {buffer_size}."
            )
        self.map_func = map_func
        self.num_worker = int(num)
        self.buffer_size = int(buffer_size)
        self.strict = bool(strict)
        self._guard = DataFlowReentrantGuard()
        self._pool: Any = None  # a WorkerPool after reset_state, with workers of the process `_owner`
        self._owner = 0
        self._stop_pool: Any = None  # stops it, once
        self.repeated: RepeatedData | None = None  # after reset_state, if not strict
        self._drops: Any = None  # a DropWatch after reset_state
        # what is pulled from: all passes, or when strict the current one
        self._source: Iterator[Datapoint] = iter(())
        self._in_flight = 0  # submitted and not collected
        self._at_start = False  # strict: the buffer holds the beginning of a pass, and nothing else

    @abstractmethod
    def _start_pool(self) -> WorkerPool:
        """Start the workers. The pool must not refer to `self`."""

    def reset_state(self) -> None:
        """
        Start the workers and reset `ds`. Workers of an earlier call are stopped first.

        The buffer is filled by the first iteration, so this does not wait for datapoints of `ds`.
        """
        self._close()
        self._owner = os.getpid()
        self._pool = self._start_pool()
        self._stop_pool = weakref.finalize(self, self._pool.stop)
        try:
            super().reset_state()
        except BaseException:  # whatever it is, no workers stay behind it
            self._close()
            raise
        self._source = iter(())
        self._in_flight = 0
        self._at_start = False
        self.repeated = None if self.strict else RepeatedData(self.ds, -1)
        self._drops = DropWatch(type(self).__name__, self.map_func, self.repeated)

    def __iter__(self) -> Iterator[Datapoint]:
        with self._guard:
            if self._pool is None:
                raise NotResetError(
                    f"{type(self).__name__}: has no workers, because reset_state() was not called. Call it once, in "
                    f"the process that iterates, before the first iteration."
                )
            require_process(self, self._owner)
            yield from self._one_pass() if self.strict else self._without_end()

    def _close(self) -> None:
        """Stop the workers, if there are any."""
        if self._stop_pool is not None:
            self._stop_pool()
        self._pool = self._stop_pool = None

    def _begin(self) -> None:
        """Fill the buffer from the beginning of `ds`, when nothing is in flight; strict."""
        self._source = iter(self.ds)
        window = self._window()
        for datapoint in itertools.islice(self._source, window):
            self._pool.submit(datapoint)
            self._in_flight += 1
        if self._in_flight < window:
            raise RuntimeError(
                f"{type(self).__name__}: a pass of {type(self.ds).__name__} had {self._in_flight} datapoints, fewer than "
                f"the {window} that strict mode keeps in flight. Make buffer_size smaller, or let len(ds) tell the truth."
            )
        self._at_start = True

    def _window(self) -> int:
        """Return how many datapoints to keep in flight: a strict pass cannot have more of them than it is long."""
        try:
            return min(self.buffer_size, len(self.ds))
        except NotImplementedError:
            return self.buffer_size

    def _without_end(self) -> Iterator[Datapoint]:
        submit, receive = self._pool.submit, self._receive
        while True:
            for datapoint in self._source:
                submit(datapoint)
                self._in_flight += 1
                while self._in_flight > self.buffer_size:
                    result = receive()
                    if result is not None:
                        self._drops.kept = True
                        yield result
                    else:
                        self._drops.drop()
                        if self._drops.saw_whole_pass():
                            yield from self._look_for_a_datapoint()
            assert self.repeated is not None, "bug: reset_state() was not called, or this is strict"
            self._source = iter(
                self.repeated
            )  # at the beginning, or after an error ended an earlier iteration

    def _look_for_a_datapoint(self) -> Iterator[Datapoint]:
        """Receive all that is in flight: it may hold a datapoint of the pass that seems to have none."""
        while self._drops.saw_whole_pass():
            if self._in_flight == 0:
                raise self._drops.error()
            result = self._receive()
            if result is None:
                self._drops.drop()
            else:
                self._drops.kept = True
                yield result

    def _one_pass(self) -> Iterator[Datapoint]:
        if not self._at_start:
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

    def _receive(self) -> Any:
        try:
            result = self._pool.collect()
        except Exception:  # the result of one datapoint; what interrupts the waiting, as Ctrl-C does, is none
            self._in_flight -= 1
            raise
        self._in_flight -= 1
        return result

    def _receive_strictly(self) -> Datapoint:
        result = self._receive()
        if result is None:
            raise ValueError(
                f"{type(self).__name__}: map_func returned None, but with strict=True each datapoint must stay. Return a "
                f"datapoint, drop it before or after this stage, or leave strict mode."
            )
        return result

    def _discard(self) -> None:
        """Wait for what a pass that was left early has in flight, and forget it."""
        while self._in_flight > 0:
            try:
                self._receive()
            except Exception as error:  # noqa: BLE001 (nobody wants this result; a broken pool says so again when used)
                logger.info(f"{type(self).__name__}: in a pass that was left early: {error}")
