"""
What runs in a worker process: it makes datapoints, sends them, and never fails in silence.

Two threads: the main one makes datapoints, the other sends what is there. So datapoints that come fast travel many at
a time, and one that comes after a second is not held back for its neighbours.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading
import time
from collections import deque
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from ...utils.concurrency import enable_death_signal
from ...utils.utils import WorkerStream, enter_worker_stream
from .channel import ChannelClosed, Writer
from .errors import describe_error

__all__ = [
    "CHUNK_BYTES", "CHUNK_LENGTH", "FOLLOWED_EXIT_CODE", "Outbox", "Task", "WorkerSetup", "run_worker", "take_chunk",
]  # fmt: skip

CHUNK_LENGTH = 64
CHUNK_BYTES = 1 << 20
FOLLOWED_EXIT_CODE = 83  # of a worker that ended because one that it works with was gone
_PARENT_CHECK_SECONDS = 0.3


class WorkerSetup(NamedTuple):
    """
    What a worker must know of itself; it can be pickled.

    Attributes:
        who: the stage.
        number: of the worker in its stage.
        stream: its random streams.
        num_slots: how many messages it may have on their way.
        max_ahead: how many datapoints it may make before they are sent; 0: no limit.
        chunk_length: how many small datapoints go into one message.
        patience: how many seconds it waits for `max_ahead` before it makes more after all; None: for ever. A worker that
            is also fed from outside must not wait for ever: who feeds it might be waiting for it.
        parent_pid: the process that must be its parent; 0: not known beforehand (forkserver).
        dies_with_thread: whether the thread that starts it lives as long as the process, so that Linux may watch it.
    """

    who: str
    number: int
    stream: WorkerStream
    num_slots: int
    max_ahead: int
    chunk_length: int
    patience: Optional[float]
    parent_pid: int
    dies_with_thread: bool


class Task(NamedTuple):
    """
    What a worker runs; with spawn, all of it is pickled.

    Attributes:
        where: what it is, for errors, e.g. "in the DataFlow FakeData".
        make: called in the worker with `args`; yields lists of datapoints, which are sent.
        args: its arguments.
        sources: connections among `args` from which it reads. They are the worker's: closed elsewhere once it runs.
        targets: the writing ends of channels to other workers, to any of which a datapoint may go. Without
            any, it goes to the process that started the worker.
    """

    where: str
    make: Callable[..., Iterator[Any]]
    args: Sequence[Any] = ()
    sources: Sequence[Any] = ()
    targets: Sequence[Any] = ()


def run_worker(setup: WorkerSetup, connection: Any, task: Task) -> None:
    """
    Be a worker: the target of the process.

    Args:
        setup: of this worker.
        connection: the writing end of its channel to the process that started it.
        task: what to run.
    """
    _live_and_die_with_parent(setup)
    enter_worker_stream(setup.stream)
    outbox = Outbox(setup.max_ahead, setup.chunk_length, setup.patience)
    sender = threading.Thread(target=_send_all, args=(outbox, setup, connection, task), daemon=True)
    sender.start()
    try:
        for datapoints in task.make(*task.args):
            if not outbox.put(datapoints):
                break
        outbox.end(None)
    except ChannelClosed:
        outbox.follow()
    except BaseException as error:  # noqa: BLE001 (it is raised in the process that started this one)
        outbox.end(error)
    sender.join()
    if outbox.followed:
        sys.exit(FOLLOWED_EXIT_CODE)


class Outbox:
    """
    Datapoints that wait to be sent, from the thread that makes them to the one that sends.

    Args:
        max_length: `put` returns only when fewer are there; 0: at once.
        chunk_length: how many `take` takes at most.
        patience: for how many seconds `put` waits at most; None: for ever.

    Attributes:
        error: what it ended with, or None.
        followed: whether it ended because another worker did.
    """

    def __init__(self, max_length: int, chunk_length: int, patience: float | None = None) -> None:
        self._patience = patience
        self._max_length = max_length
        self._chunk_length = chunk_length
        self._items: deque[Any] = deque()
        self._changed = threading.Condition()
        self._taker_waits = False
        self._is_open = True
        self.error: BaseException | None = None
        self.followed = False

    def put(self, datapoints: list[Any]) -> bool:
        """Add datapoints; False when nobody takes them any more."""
        # adding to a deque needs no lock; the lock is only for waiting and waking
        self._items.extend(datapoints)
        if self._taker_waits:
            with self._changed:
                self._changed.notify_all()
        if self._max_length and len(self._items) >= self._max_length:
            with self._changed:
                while len(self._items) >= self._max_length and self._is_open:
                    if not self._changed.wait(self._patience):
                        break
        return self._is_open

    def end(self, error: BaseException | None) -> None:
        """Say that no more will come, and why."""
        with self._changed:
            self._is_open = False
            self.error = error
            self._changed.notify_all()

    def follow(self) -> None:
        """End because a worker that this one works with is gone; it is missed where it was started."""
        self.followed = True
        self.end(None)

    def take(self) -> list[Any]:
        """Return what waits, as much as goes into one message; wait for it. Empty at the end."""
        if not self._items:
            with self._changed:
                self._taker_waits = True  # said before looking again: nothing can be added unseen
                while not self._items and self._is_open:
                    self._changed.wait()
                self._taker_waits = False
        was_full = self._max_length and len(self._items) >= self._max_length
        chunk = take_chunk(self._items, self._chunk_length)
        if was_full:
            with self._changed:
                self._changed.notify_all()
        return chunk


def take_chunk(items: deque[Any], max_length: int) -> list[Any]:
    """
    Remove from the left what goes into one message: one large datapoint, or several small ones.

    Args:
        items: datapoints.
        max_length: at most so many.
    """
    chunk: list[Any] = []
    num_bytes = 0
    while items and len(chunk) < max_length:
        num_bytes += _rough_bytes(items[0])
        if chunk and num_bytes >= CHUNK_BYTES:
            break
        chunk.append(items.popleft())
    return chunk


def _rough_bytes(datapoint: Any) -> int:
    """Estimate the size of a datapoint: arrays and strings that are its components."""
    kind = type(datapoint)
    if kind is dict:
        datapoint = datapoint.values()
    elif kind is not list and kind is not tuple:
        return CHUNK_BYTES  # nobody knows: it travels alone
    total = 0
    for component in datapoint:
        kind = type(component)
        if kind is np.ndarray:
            total += component.nbytes
        elif kind is bytes or kind is str:
            total += len(component)
        elif kind is list or kind is tuple or kind is dict:
            total += _rough_bytes(component)
    return total


class _AnyOf:
    """Several writers as one: a message goes to one that has room."""

    def __init__(self, writers: list[Writer]) -> None:
        self._writers = deque(writers)
        self._selector = selectors.DefaultSelector()
        for writer in writers:
            self._selector.register(writer, selectors.EVENT_READ)

    def send(self, datapoints: list[Any]) -> None:
        while True:
            for writer in self._writers:
                if writer.has_room():
                    writer.send(datapoints)
                    self._writers.rotate(-1)
                    return
            self._selector.select()


def _send_all(outbox: Outbox, setup: WorkerSetup, connection: Any, task: Task) -> None:
    """Send until there is no more; then the error, if there was one."""
    home = Writer(connection, setup.who, setup.num_slots)
    road: Any = home
    if task.targets:
        road = _AnyOf([Writer(target, setup.who, setup.num_slots) for target in task.targets])
    error: BaseException | None = None
    try:
        while True:
            chunk = outbox.take()
            if not chunk:
                break
            road.send(chunk)
        error = outbox.error
    except ChannelClosed:
        outbox.follow()
        return
    except BaseException as failure:  # noqa: BLE001 (a datapoint that cannot be sent: raised where it is awaited)
        outbox.end(None)
        error = failure
    try:
        if error is not None:
            name = f"{setup.who}: worker {setup.number} (pid {os.getpid()}), {task.where}"
            home.send_error(describe_error(error, name))
        home.close()
    except ChannelClosed:
        return


def _live_and_die_with_parent(setup: WorkerSetup) -> None:
    """Leave Ctrl-C to the parent, and end when the parent ends, however that happens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if setup.dies_with_thread:
        enable_death_signal(_warn=False)
    parent = setup.parent_pid or os.getppid()
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True, name="watch parent").start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)
