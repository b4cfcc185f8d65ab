"""
The code that runs in a worker process: it makes datapoints and sends them, or the error that it met.

The main thread makes datapoints; a second thread sends those that wait in a queue between the two. Datapoints that are
made fast therefore travel many at a time, and a datapoint that took a second is not held back for the next one.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading
import time
from collections import deque
from functools import partial
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from ...utils.concurrency import enable_death_signal
from ...utils.handoff import HandoffQueue
from ...utils.utils import WorkerStream, enter_worker_stream
from .channel import ChannelClosed, Writer
from .errors import describe_error

__all__ = [
    "CHUNK_BYTES", "CHUNK_LENGTH", "FOLLOWED_EXIT_CODE", "Task", "WorkerSetup", "run_worker", "take_chunk",
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
        max_ahead: how many datapoints may wait to be sent, in addition to the one that it makes; 0: no limit.
        chunk_length: how many small datapoints go into one message.
        patience: how many seconds it waits, with a new datapoint, while `max_ahead` others wait to be sent; None: no
            limit. A worker that also receives input needs a limit, otherwise producer and worker can deadlock.
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
    home = Writer(connection, setup.who, setup.num_slots)
    outbox: HandoffQueue[Any] = HandoffQueue(
        setup.max_ahead, remove=partial(take_chunk, max_length=setup.chunk_length)
    )
    sender = threading.Thread(target=_send_all, args=(outbox, home, setup, task), daemon=True)
    sender.start()
    try:
        for datapoints in task.make(*task.args):
            if not outbox.put(datapoints, setup.patience):
                break
        outbox.end()
    except BaseException as error:  # noqa: BLE001 (the sender passes it on to the process that started this one)
        outbox.end(error)
    sender.join()
    if isinstance(outbox.error, ChannelClosed):
        sys.exit(FOLLOWED_EXIT_CODE)


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


def _send_all(outbox: HandoffQueue[Any], home: Writer, setup: WorkerSetup, task: Task) -> None:
    """Send datapoints until the outbox has ended; then send the error, if there is one."""
    road: Any = home
    try:
        if task.targets:
            road = _AnyOf([Writer(target, setup.who, setup.num_slots) for target in task.targets])
        for chunk in iter(outbox.take, []):
            road.send(chunk)
    except BaseException as failure:  # noqa: BLE001 (a datapoint cannot be sent, or nobody is there to receive it)
        outbox.stop(failure)
    error = outbox.error
    if isinstance(error, ChannelClosed):
        return  # the worker that closed the channel is missed by the process that started both
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
