"""
The workers of one stage, as the process that started them sees them: start, receive, notice deaths, end.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import selectors
import time
import weakref
from multiprocessing import connection
from typing import Any, Iterator, NamedTuple, NoReturn, Optional, Sequence

from ...utils.concurrency import ensure_proc_terminate, is_main_thread, start_proc_mask_signal
from ...utils.utils import make_worker_streams
from .channel import MAX_SLOTS, ChannelClosed, Reader
from .errors import died
from .worker import CHUNK_LENGTH, FOLLOWED_EXIT_CODE, Task, WorkerSetup, run_worker

__all__ = ["Settings", "WorkerGroup"]

_DEATH_CHECK_SECONDS = 0.5
_CULPRIT_SECONDS = 5  # a worker that follows another may be faster than that one is with its end
_EXIT_SECONDS = 1  # workers die by SIGTERM itself, unless somebody gave them a handler


class Settings(NamedTuple):
    """
    How far workers run ahead of whoever takes their datapoints.

    Attributes:
        num_slots: how many messages each may have on their way, 2 to 16.
        max_ahead: how many datapoints may wait in each to be sent; it holds one more. 0: no limit.
        chunk_length: how many small datapoints go into one message.
        patience: for how many seconds `max_ahead` holds; None: for ever. See WorkerSetup.
    """

    num_slots: int = MAX_SLOTS
    max_ahead: int = 0
    chunk_length: int = CHUNK_LENGTH
    patience: Optional[float] = None


class WorkerGroup:
    """
    Start workers, and receive what they make.

    Args:
        who: the stage, for errors.
        tasks: one for each worker.
        settings: of each worker; one for all, or one for each.

    Raises:
        pickle.PicklingError: workers are spawned, and a task cannot be pickled.

    Note:
        The start method is the global one of multiprocessing. The workers are ended by `stop`, when this object is
        collected, and at exit.
    """

    def __init__(self, who: str, tasks: Sequence[Task], settings: Settings | list[Settings]) -> None:
        self._who = who
        self._selector = selectors.DefaultSelector()
        self._tasks = tasks
        self._processes: list[Any] = []
        self._readers: list[Reader] = []
        self._end = weakref.finalize(
            self, _end_all, os.getpid(), self._processes, self._readers, self._selector
        )
        # ensure_proc_terminate does that, before multiprocessing waits for its children
        self._end.atexit = False
        streams = make_worker_streams(len(tasks))
        for index, task in enumerate(tasks):
            mine = settings[index] if isinstance(settings, list) else settings
            self._start(WorkerSetup(who, index, streams[index], *mine, *_parent()), task)

    def receive(self) -> Iterator[tuple[int, list[Any]]]:
        """
        Wait until a worker sends something.

        Yields:
            (number of the worker, its datapoints) for one message of each worker that has one.

        Raises:
            BaseException: the error of a worker, as it was there; all workers are stopped.
            WorkerDied: a worker ended without saying why; all workers are stopped.
            RuntimeError: the workers were stopped before.
        """
        if not self._end.alive:
            raise RuntimeError(f"{self._who}: its workers were stopped; build a new one.")
        while True:
            ready = self._selector.select(_DEATH_CHECK_SECONDS)
            if ready:
                break
            self._raise_if_dead()
        for key, _ in ready:
            yield key.data, self._receive_from(key.data)

    def stop(self) -> None:
        """End the workers and wait for them. Arrays that came from them stay as they are."""
        self._end()

    def _start(self, setup: WorkerSetup, task: Task) -> None:
        here, there = multiprocessing.Pipe()
        process = multiprocessing.Process(
            target=run_worker,
            args=(setup, there, task),
            name=f"{setup.who}-{setup.number}",
        )
        try:
            start_proc_mask_signal(process)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            here.close()
            self.stop()
            raise pickle.PicklingError(
                f"{self._who}: what a worker runs must be picklable, because the start method is "
                f"{multiprocessing.get_start_method()!r}: {error}. Use functions and classes of a module, no lambda."
            ) from error
        finally:
            for unused in (there, *task.sources, *task.targets):
                unused.close()
        ensure_proc_terminate(process)
        self._processes.append(process)
        self._readers.append(Reader(here))
        self._selector.register(here, selectors.EVENT_READ, setup.number)

    def raise_failure(self, index: int) -> NoReturn:
        """
        Raise what went wrong, after the channel of a worker was found closed.

        Args:
            index: of the worker. It may have ended only because another one did.

        Raises:
            BaseException: the error that a worker sent before it ended, or WorkerDied; all workers are stopped.
        """
        try:
            culprit = self._find_culprit(index)
            ended = [i for i, process in enumerate(self._processes) if process.exitcode is not None]
            for each in [culprit, *ended]:
                self._raise_if_it_sent_an_error(each)
            process = self._processes[culprit]
            raise died(self._who, self._tasks[culprit].where, culprit, process.pid, process.exitcode)
        finally:
            self.stop()

    def _find_culprit(self, index: int) -> int:
        """Find who ended of himself: a worker whose channel is closed may only have followed another."""
        self._processes[index].join(_EXIT_SECONDS)
        deadline = time.monotonic() + _CULPRIT_SECONDS
        while self._processes[index].exitcode == FOLLOWED_EXIT_CODE and time.monotonic() < deadline:
            for other, process in enumerate(self._processes):
                if process.exitcode not in (None, FOLLOWED_EXIT_CODE):
                    return other
            alive = [process.sentinel for process in self._processes if process.exitcode is None]
            if not alive:
                break
            connection.wait(alive, deadline - time.monotonic())
        return index

    def _raise_if_it_sent_an_error(self, index: int) -> None:
        """Read what a worker that ended has sent; do not wait for the end, which a grandchild may hold back."""
        try:
            while self._readers[index].has_news():
                self._readers[index].receive()
        except ChannelClosed:
            return

    def _receive_from(self, index: int) -> list[Any]:
        try:
            return self._readers[index].receive()
        except ChannelClosed:
            self.raise_failure(index)
        except BaseException:  # a worker's error, or Ctrl-C: no worker stays behind it
            self.stop()
            raise

    def _raise_if_dead(self) -> None:
        """Look at the processes themselves: a grandchild may hold the channel of a dead worker open."""
        for index, process in enumerate(self._processes):
            if process.exitcode is not None and not self._selector.select(0):
                self.raise_failure(index)


def _parent() -> tuple[int, bool]:
    """Return the pid a worker shall see as its parent (0: not known), and whether the starting thread stays."""
    direct = multiprocessing.get_start_method() != "forkserver"
    return (os.getpid() if direct else 0), direct and is_main_thread()


def _end_all(owner: int, processes: list[Any], readers: list[Reader], selector: Any) -> None:
    selector.close()
    for reader in readers:
        reader.close()
    if os.getpid() != owner:
        return  # a fork of the owner: the workers are not its children
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_EXIT_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
