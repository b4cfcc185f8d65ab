"""
The code of a worker process, which produces datapoints and sends them, or sends its error.

The main thread produces datapoints into a queue, and a second thread sends everything that waits in the queue. So
datapoints that are produced fast share messages, and a slow datapoint is sent as soon as it is ready.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

from numpy import ndarray

from ...utils.concurrency import enable_death_signal
from ...utils.frames import frame_of_thread
from ...utils.handoff import HandoffQueue
from ...utils.random_streams import WorkerStream, enter_worker_stream
from ...utils.stacks import describe_argument
from ..base import Datapoint
from ..failure import user_line
from ..meter import Meter, begin_worker
from ..records import COUNT, Page
from .channel import MAX_SLOTS, ChannelClosed, Writer
from .errors import describe_error
from .stack_file import StackFile

CHUNK_LENGTH = 64
CHUNK_BYTES = 1 << 20
FOLLOWED_EXIT_CODE = 83  # of a worker that ended because a worker that it works with had ended
_PARENT_CHECK_SECONDS = 0.3


class Settings(NamedTuple):
    """
    Limits on how far a worker runs ahead of the consumer.

    Attributes:
        num_slots: maximum number of unread messages, 2 to 16.
        max_ahead: maximum number of datapoints that wait to be sent, in addition to the current one; 0 for no limit.
        chunk_length: maximum number of small datapoints in one message.
        patience: how many seconds a new datapoint waits while `max_ahead` others wait to be sent; None for no limit. A
            worker that also receives input needs a limit, otherwise producer and worker can deadlock.
        chunk_bytes: maximum size of a message with several datapoints.
    """

    num_slots: int = MAX_SLOTS
    max_ahead: int = 0
    chunk_length: int = CHUNK_LENGTH
    patience: Optional[float] = None
    chunk_bytes: int = CHUNK_BYTES


class WorkerSetup(NamedTuple):
    """
    The identity of a worker; it can be pickled.

    Attributes:
        who: name of the stage.
        number: number of the worker in its stage.
        stream: random streams of the worker.
        parent_pid: the expected parent process; 0 if unknown (forkserver).
        dies_with_thread: whether Linux may end the worker when the thread that started it ends. False unless
            that is the main thread of the parent.
        page: where the worker keeps its records; None if there is no memory for them.
        stacks: where it writes its stacks when it is asked; None if there is no memory for them.
    """

    who: str
    number: int
    stream: WorkerStream
    parent_pid: int
    dies_with_thread: bool
    page: Optional[Page]
    stacks: Optional[StackFile] = None


class Task(NamedTuple):
    """
    The work of a worker; with spawn, all of it is pickled.

    Attributes:
        where: description for errors, e.g. "in the DataFlow FakeData".
        make: called in the worker with `args`; yields lists of datapoints, which are sent.
        args: arguments of `make`.
        settings: limits of the worker.
        sources: connections among `args` from which the worker reads. The starting process closes its copies once the
            worker runs.
        targets: the sending ends of channels to other workers; each datapoint goes to any one of them. Without
            targets, datapoints go to the process that started the worker.
    """

    where: str
    make: Callable[..., Iterator[Any]]
    args: Sequence[Any] = ()
    settings: Settings = Settings()
    sources: Sequence[Any] = ()
    targets: Sequence[Any] = ()


def run_worker(setup: WorkerSetup, connection: Connection, task: Task) -> None:
    """
    Run a worker; this is the target of its process.

    Args:
        setup: identity of the worker.
        connection: the sending end of its channel to the process that started it.
        task: the work.
    """
    if setup.stacks is not None:
        setup.stacks.register()
    _follow_parent(setup)
    enter_worker_stream(setup.stream)
    meter = begin_worker(f"worker {setup.number}", setup.page)
    settings = task.settings
    home = Writer(connection, setup.who, settings.num_slots)
    outbox: HandoffQueue[Any] = HandoffQueue(
        settings.max_ahead, remove=partial(take_chunk, max_length=settings.chunk_length, max_bytes=settings.chunk_bytes)
    )
    sender = threading.Thread(target=_send_all, args=(outbox, home, setup, task, meter), daemon=True)
    sender.start()
    put, patience = outbox.put, settings.patience
    try:
        for datapoints in task.make(*task.args):
            if not put(datapoints, patience, meter):
                break
        outbox.end()
    except BaseException as error:  # noqa: BLE001 (the sender thread sends it to the process that started this one)
        outbox.end(error)
    meter.end()
    sender.join()
    if isinstance(outbox.error, ChannelClosed):
        sys.exit(FOLLOWED_EXIT_CODE)


def take_chunk(items: deque[Any], max_length: int, max_bytes: int = CHUNK_BYTES) -> list[Any]:
    """
    Remove the datapoints of the next message from the left: one large datapoint, or several small ones.

    Args:
        items: datapoints.
        max_length: maximum number of datapoints.
        max_bytes: maximum size of several datapoints together.
    """
    chunk: list[Any] = []
    num_bytes = 0
    for _ in range(min(len(items), max_length)):
        num_bytes += _rough_bytes(items[0])
        if chunk and num_bytes >= max_bytes:
            break
        chunk.append(items.popleft())
    return chunk


def _rough_bytes(datapoint: Datapoint) -> int:
    """Estimate the size of a datapoint from the arrays and strings in it."""
    kind = type(datapoint)
    if kind is dict:
        datapoint = datapoint.values()
    elif kind is not list and kind is not tuple:
        return sys.maxsize  # unknown, so it gets a message by itself
    total = 0
    for component in datapoint:
        kind = type(component)
        if kind is ndarray:
            total += component.nbytes
        elif kind is bytes or kind is str:
            total += len(component)
        elif kind is list or kind is tuple or kind is dict:
            total += _rough_bytes(component)
    return total


class _AnyOf:
    """Several writers as one. A message goes to the first writer that has room."""

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


def _send_all(outbox: HandoffQueue[Any], home: Writer, setup: WorkerSetup, task: Task, meter: Meter) -> None:
    """Send datapoints until the outbox has ended, then the error, if there is one. Count them in the worker's record."""
    writer: Any = home
    words, is_sent = meter.words, True
    try:
        if task.targets:
            writer = _AnyOf([Writer(target, setup.who, task.settings.num_slots) for target in task.targets])
        for chunk in iter(outbox.take, []):
            words[COUNT] += len(chunk)  # here, because the main thread would do it for each datapoint
            writer.send(chunk)
    except BaseException as failure:  # noqa: BLE001 (a datapoint cannot be sent, or the receiver has ended)
        is_sent = False
        outbox.stop(failure)
    error = outbox.error
    if isinstance(error, ChannelClosed):
        return  # the process that started both workers notices that the other one has ended
    with suppress(ChannelClosed):
        if error is not None:
            name = f"{setup.who}: worker {setup.number} (pid {os.getpid()}), {task.where}{user_line(error)}"
            name += f" on its datapoint {meter.failed_at or words[COUNT] + 1}" if is_sent else ""
            home.send_error(describe_error(error, name))
        home.close()


def _follow_parent(setup: WorkerSetup) -> None:
    """Leave Ctrl-C and SIGTERM to the parent, and end when the parent ends, for whatever reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A scheduler sends SIGTERM to all processes, and the parent may need its workers until it has saved. This
    # is a handler because programs that the worker runs would inherit SIG_IGN, and could not be terminated.
    signal.signal(signal.SIGTERM, _ignore)
    signal.siginterrupt(signal.SIGTERM, False)
    # blocked by the process that started the worker
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
    if setup.dies_with_thread:
        enable_death_signal(_warn=False)
    parent, in_work = setup.parent_pid or os.getppid(), InWork(setup.page, setup.stacks)
    threading.Thread(target=_watch_parent, args=(parent, in_work), daemon=True, name="watch parent").start()


def _ignore(number: int, frame: FrameType | None) -> None:
    """Handle a signal by doing nothing."""


class InWork:
    """
    Watchdog of the main thread of a worker. If no stage has moved between two looks, it describes the datapoint in work.

    Args:
        page: the records of the worker.
        stacks: receives the description as its note; None does nothing.
    """

    def __init__(self, page: Page | None, stacks: StackFile | None) -> None:
        self._page, self._stacks = page, stacks
        self._counts: list[int] = []
        self._note = ""

    def look(self) -> None:
        """Look once; another thread than the main one calls it several times a second."""
        if self._page is None or self._stacks is None:
            return
        counts = [reading.count for reading in self._page.read()]
        moves, self._counts = counts != self._counts, counts
        if moves and self._note:
            self._note = self._stacks.note = ""
        elif not (moves or self._note):
            self._note = describe_argument(frame_of_thread(threading.main_thread().ident or 0))
            if self._note:
                self._stacks.note = self._note


def _watch_parent(parent: int, in_work: InWork) -> None:
    while os.getppid() == parent:
        in_work.look()
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(1)
