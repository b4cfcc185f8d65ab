"""
The workers of one stage: start them, receive from them, notice that one has died, and stop them.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import selectors
import sys
import threading
import time
import weakref
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any, Callable, Iterator, NoReturn, Sequence, TypeVar

from ...utils.concurrency import delay_sigint, is_main_thread, require_children
from ...utils.random_streams import make_worker_streams
from ..meter import Meter, WorkerProcess, current_meter
from ..records import Page
from .channel import ChannelClosed, Reader
from .errors import died
from .stack_file import StackFile
from .worker import FOLLOWED_EXIT_CODE, Task, WorkerSetup, run_worker

if sys.version_info >= (3, 8):
    from multiprocessing import resource_tracker
else:
    from multiprocessing import semaphore_tracker as resource_tracker

_T = TypeVar("_T")
_DEATH_CHECK_SECONDS = 0.5
_CULPRIT_SECONDS = 5  # a worker that follows another one may end before that one does
_CULPRIT_EXIT_SECONDS = 1
_EXIT_SECONDS = 0.1  # for workers that notice that their channel is closed; then they are killed


class WorkerGroup:
    """
    A group of worker processes, which start at once and send datapoints to this process.

    Args:
        who: name of the stage, for errors.
        tasks: one task for each worker.

    Raises:
        pickle.PicklingError: workers are spawned, and a task cannot be pickled.
        RuntimeError: this process is daemonic, so it cannot have children.

    Note:
        The start method is the global one of multiprocessing. The workers are stopped by `stop`, when this object is
        garbage-collected, and at exit.
    """

    def __init__(self, who: str, tasks: Sequence[Task]) -> None:
        require_children(who)
        self._who = who
        self._selector = selectors.DefaultSelector()
        self._tasks = tasks
        self._processes: list[BaseProcess] = []
        self._readers: list[Reader] = []
        self._meter = current_meter() or Meter(who)
        self._end = weakref.finalize(self, _end_all, os.getpid(), self._processes, self._readers, self._selector)
        # Registered here, it runs before multiprocessing waits for its children at exit. A finalizer might
        # run after that.
        self._end.atexit = False
        self._exits = threading.Event()
        atexit.register(_end_at_exit, self._exits, self._end)
        # A worker watches its parent. With forkserver, the server is the parent, so its pid is unknown here.
        is_parent = multiprocessing.get_start_method() != "forkserver"
        parent_pid = os.getpid() if is_parent else 0
        dies_with_thread = is_parent and is_main_thread()
        streams = make_worker_streams(len(tasks))
        for index, task in enumerate(tasks):
            page, stacks = _new_or_none(Page), _new_or_none(StackFile)
            setup = WorkerSetup(who, index, streams[index], parent_pid, dies_with_thread, page, stacks)
            self._start(setup, task)

    def receive(self) -> Iterator[tuple[int, list[Any]]]:
        """
        Wait until at least one worker has sent a message.

        Yields:
            (number of the worker, its datapoints) for one message of each worker that has sent one.

        Raises:
            BaseException: the error of a worker; all workers are stopped.
            WorkerDied: a worker ended without sending an error; all workers are stopped.
            RuntimeError: the workers were stopped before.
        """
        try:
            self._require_alive()
            self._meter.begin_wait()
            try:
                ready = self._wait()
            finally:
                self._meter.end_wait()
            for key, _ in ready:
                yield key.data, self._read(key.data)
        except Exception:  # at exit, any error may follow from the closed channels
            self._leave_at_exit()
            raise

    def _leave_at_exit(self) -> None:
        """If Python is exiting, end this thread, which iterates on, without a message."""
        if self._exits.is_set() and not is_main_thread():
            sys.exit()

    def _wait(self) -> list[tuple[selectors.SelectorKey, int]]:
        while True:
            ready = self._selector.select(_DEATH_CHECK_SECONDS)
            if ready:
                return ready
            # A grandchild may hold the channel of a dead worker open, so look at the processes, too.
            for index, process in enumerate(self._processes):
                if process.exitcode is not None and not self._selector.select(0):
                    self.raise_failure(index)

    def receive_from(self, index: int) -> list[Any]:
        """
        Wait for a message of one worker.

        Args:
            index: number of the worker. Messages of other workers wait in their channels.

        Returns:
            Its datapoints.

        Raises:
            BaseException: as `receive`, but only for this worker.
        """
        try:
            return self._receive_from(index)
        except Exception:  # at exit, any error may follow from the closed channels
            self._leave_at_exit()
            raise

    def _receive_from(self, index: int) -> list[Any]:
        self._require_alive()
        self._meter.begin_wait()
        try:
            while not self._readers[index].is_ready(_DEATH_CHECK_SECONDS):
                # a grandchild may hold the channel of a dead worker open
                if self._processes[index].exitcode is not None and not self._readers[index].is_ready():
                    self.raise_failure(index)
        finally:
            self._meter.end_wait()
        return self._read(index)

    def stop(self) -> None:
        """Stop the workers and wait until they have ended. Arrays that they sent stay valid."""
        self._end()

    def _require_alive(self) -> None:
        if not self._end.alive:
            raise RuntimeError(f"{self._who}: its workers were stopped. Build a new one.")

    def _read(self, index: int) -> list[Any]:
        try:
            return self._readers[index].receive()
        except ChannelClosed:
            self.raise_failure(index)
        except BaseException:  # a worker's error, or Ctrl-C
            self.stop()
            raise

    def _start(self, setup: WorkerSetup, task: Task) -> None:
        here, there = multiprocessing.Pipe()
        name = f"{setup.who}-{setup.number}"
        process = multiprocessing.Process(target=run_worker, args=(setup, there, task), name=name)
        if multiprocessing.get_start_method() != "fork":
            with delay_sigint():  # a separate one, because starting the tracker unblocks the signals
                resource_tracker.ensure_running()
        self._processes.append(process)  # before it runs, so that it is ended in any case
        try:
            with delay_sigint():
                process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            here.close()
            self.stop()
            raise pickle.PicklingError(
                f"{self._who}: the task of a worker must be picklable with the start method "
                f"{multiprocessing.get_start_method()!r}: {error}. Use functions and classes of a module, no lambdas."
            ) from error
        finally:
            for unused in (there, *task.sources, *task.targets):
                unused.close()
            if setup.page is not None:
                setup.page.close_handle()
        self._meter.processes.append(WorkerProcess(setup.number, process, setup.page, setup.stacks))
        self._readers.append(Reader(here))
        self._selector.register(here, selectors.EVENT_READ, setup.number)

    def raise_failure(self, index: int) -> NoReturn:
        """
        Raise the reason why the channel of a worker is closed.

        Args:
            index: number of the worker. It may have ended only because another worker did.

        Raises:
            BaseException: the error that a worker sent before it ended, or WorkerDied; all workers are stopped.
        """
        try:
            culprit = self._find_culprit(index)
            ended = [i for i, process in enumerate(self._processes) if process.exitcode is not None]
            for number in [culprit, *ended]:
                self._raise_sent_error(number)
            process = self._processes[culprit]
            raise died(self._who, self._tasks[culprit].where, culprit, process.pid, process.exitcode)
        finally:
            self.stop()

    def _find_culprit(self, index: int) -> int:
        """Return the worker that ended first: the given worker may have ended only because another one did."""
        self._processes[index].join(_CULPRIT_EXIT_SECONDS)
        deadline = time.monotonic() + _CULPRIT_SECONDS
        while self._processes[index].exitcode == FOLLOWED_EXIT_CODE and time.monotonic() < deadline:
            for number, process in enumerate(self._processes):
                if process.exitcode not in (None, FOLLOWED_EXIT_CODE):
                    return number
            alive = [process.sentinel for process in self._processes if process.exitcode is None]
            if not alive:
                break
            connection.wait(alive, deadline - time.monotonic())
        return index

    def _raise_sent_error(self, index: int) -> None:
        """Raise the error that a worker sent before it ended, if any. Never wait: a grandchild may hold the channel open."""
        with suppress(ChannelClosed):
            while self._readers[index].is_ready():
                self._readers[index].receive()


def _end_all(owner: int, processes: list[BaseProcess], readers: list[Reader], selector: selectors.BaseSelector) -> None:
    with delay_sigint():
        selector.close()
        for reader in readers:
            reader.close()
        if os.getpid() != owner:
            return  # in a fork of the owner, the workers are not children of this process
        started = [process for process in processes if process.pid is not None]
        deadline = time.monotonic() + _EXIT_SECONDS
        for process in started:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in started:
            process.kill()
            process.join()


def _end_at_exit(exits: threading.Event, end: Callable[[], object]) -> None:
    exits.set()
    end()


def _new_or_none(kind: Callable[[], _T]) -> _T | None:
    """Return memory for the records or the stacks of a worker; None if there is none: they are not worth an error."""
    try:
        return kind()
    except OSError:
        return None
