"""
Records of the stages of a pipeline, in memory that another process can read.

A record is an array of 64-bit words, which has one writer. Each word is stored at once, so a reader sees no half of
it; words that belong together differ by at most one datapoint. All times are nanoseconds of `time.perf_counter_ns`,
which on Linux is one clock for all processes.

The records of a worker are in a `Page`, which the process that starts the worker allocates. So it can read them
while the worker hangs, and after it was killed. Elsewhere a record is a list, which is faster than shared memory.
"""

from __future__ import annotations

import os
from multiprocessing.reduction import DupFd
from time import perf_counter_ns
from typing import Any, Callable, NamedTuple

from .process.memory import allocate, map_memory

# the words of a record; `Reading` has those before STATE in this order
COUNT = (
    0  # datapoints that were asked for; between two datapoints: those that were given. Of a worker: those it has sent
)
NUM_TIMED = 1  # datapoints that were timed
WALL = 2  # own time for these datapoints, without sources and without waiting
CPU = 3  # CPU time of the thread in WALL
NUM_BYTES = 4  # bytes of the datapoints that were timed
WAITED_IN = 5  # time that all datapoints waited for workers, threads or queues that this stage reads
WAITED_OUT = 6  # time that all datapoints waited until there was room for them
TICKET = 7  # number of the datapoint in work, if it is another one than COUNT
STATE = 8  # the time at which the state was set, times 8, plus the state
_PARENT = 9  # number of the record of the stage that reads this one; -1 if none
_NAME = 10
NUM_WORDS = 22

# the states
IDLE, WORKING, WAITS_FOR_INPUT, WAITS_FOR_ROOM, ENDED = range(5)
STATE_WORDS = ("idle", "working", "waiting for input", "waiting for room", "ended")

_NAME_BYTES = 8 * (NUM_WORDS - _NAME)
_MAX_RECORDS = 32
_PAGE_BYTES = 8 * (1 + _MAX_RECORDS * NUM_WORDS)  # 5640


class Reading(NamedTuple):
    """
    A record at one moment.

    Attributes:
        name: the class of the stage and its function, e.g. "MapData(resize)".
        parent: number of the stage that reads this one, in the same page; -1 if none.
        count, num_timed, wall, cpu, num_bytes, waited_in, waited_out, ticket: the words of the same names; times in
            seconds.
        state: one of STATE_WORDS.
        since: when the state was set, in seconds of `time.perf_counter`; 0 if it never was.
    """

    name: str
    parent: int
    count: int  # type: ignore[assignment]
    num_timed: int
    wall: float
    cpu: float
    num_bytes: int
    waited_in: float
    waited_out: float
    ticket: int
    state: str
    since: float

    @property
    def seconds_in_state(self) -> float:
        """How long the state has lasted."""
        return perf_counter_ns() / 1e9 - self.since


def new_record(name: str) -> list[Any]:
    """Return an empty record in the memory of this process."""
    return [0] * _PARENT + [-1, name]


def read_record(record: Any) -> Reading:
    """Return the content of a record."""
    if isinstance(record, list):
        *words, name = record
    else:
        words = record[:_NAME].tolist()
        name = bytes(record[_NAME:].cast("B")).rstrip(b"\0").decode(errors="replace")
    since, state = divmod(words[STATE], 8)
    for word in (WALL, CPU, WAITED_IN, WAITED_OUT):
        words[word] /= 1e9
    return Reading._make([name, words[_PARENT], *words[:STATE], STATE_WORDS[state], since / 1e9])


class Page:
    """
    The records of one worker process, shared with the process that starts it.

    It can be pickled while a process is started, until `close_handle`.

    Args:
        handle: file descriptor of the memory. Default: new memory.

    Raises:
        OSError: there is not enough memory.
    """

    def __init__(self, handle: int | None = None) -> None:
        self._handle = allocate(_PAGE_BYTES) if handle is None else handle
        self._words = memoryview(map_memory(os.dup(self._handle), _PAGE_BYTES)).cast("q")

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return _attach, (DupFd(self._handle),)

    def close_handle(self) -> None:
        """Close the file descriptor, which only a process that is being started needs."""
        os.close(self._handle)

    def new_record(self, name: str, parent: int = -1) -> tuple[Any, int]:
        """Return a record and its number; once the page is full, one in the memory of this process and -1. Long names are cut."""
        number = self._words[0]
        if number >= _MAX_RECORDS:
            return new_record(name), -1
        begin = 1 + number * NUM_WORDS
        record = self._words[begin : begin + NUM_WORDS]
        record[_PARENT] = parent
        record[_NAME:].cast("B")[:] = name.encode()[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0")
        self._words[0] = number + 1
        return record, number

    def read(self) -> list[Reading]:
        """Return the content of all records. The process that wrote them need not run any more."""
        ends = [1 + number * NUM_WORDS for number in range(self._words[0] + 1)]
        return [read_record(self._words[begin:end]) for begin, end in zip(ends, ends[1:])]


def _attach(handle: Any) -> Page:
    """Return a page in the process that was started, with the memory of the one that starts it."""
    page = Page(handle.detach())
    page.close_handle()
    return page
