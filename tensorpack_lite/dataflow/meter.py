"""
Meters of the stages of a pipeline: how many datapoints each has given, its own time for one, and what it waits for.

A `Meter` observes each stage from its `reset_state` on, in each process. Meters form a tree, as the
calls of `reset_state` do. The stages of a tree run one after the other in one thread: they are a *part*. Below a
stage with workers hang the parts of its workers, in `Meter.threads` and `Meter.processes`.

Datapoints are always counted. Time is measured for one datapoint in N of the outermost stage of a part, for all stages
of that part together. N is chosen so that the clocks cost less than 0.5 % of the time.

Known limits: stages that several threads read at once, and stages that a thread of the user reads, are counted but not
timed there. Processes that a worker starts are not seen from above.
"""

from __future__ import annotations

import functools
import threading
import types
from time import perf_counter_ns, thread_time_ns
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np

from ..utils.brief_traceback import end_briefly
from ..utils.inspection import instance_attributes, static_attribute
from .observing import Begin, Observer, current_stage, forget_stages
from .part_timing import COST_NS, PartTiming
from .records import (
    COUNT,
    CPU,
    ENDED,
    NUM_BYTES,
    NUM_TIMED,
    STATE,
    WAITED_IN,
    WAITED_OUT,
    WAITS_FOR_INPUT,
    WAITS_FOR_ROOM,
    WALL,
    WORKING,
    Page,
    Reading,
    new_record,
    read_record,
)

_NAMED = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, np.ufunc)


class WorkerProcess(NamedTuple):
    """
    A worker process of a stage.

    Attributes:
        number: its number in the stage.
        process: its `multiprocessing.Process`.
        page: its records, the first of which is that of the worker itself; None if there was no memory for them.
        stacks: its `StackFile`; None if there was no memory for it.
    """

    number: int
    process: Any
    page: Any
    stacks: Any = None

    def read(self) -> list[Reading]:
        """Return its records, also while it hangs and after it has died."""
        return [] if self.page is None else self.page.read()


class Meter(Observer):
    """
    The record of one stage in one process, and its place in the tree.

    A thread or function that is not a stage, such as the `map_func` of a worker, has a meter, too.

    Args:
        name: name of the stage.
        parent: the meter of the stage that reads this one, in the same thread.

    Attributes:
        name: the argument.
        is_outermost: whether it has no parent.
        words: the record; see `records`.
        children: meters of the stages that this one reads in the same thread.
        threads: meters of the outermost stages, or of the functions, of its worker threads.
        processes: its worker processes.
        failed_at: in a worker that maps, the number of the datapoint at which the function failed, from 1; 0 if it has not.
    """

    number: int  # of the record in its page
    part: PartTiming

    __slots__ = (
        "children", "failed_at", "is_outermost", "name", "number", "page", "part", "processes", "threads", "words",
    )  # fmt: skip

    def __init__(self, name: str, parent: Meter | None = None) -> None:
        self.name = name
        self.failed_at = 0
        self.page = _process.page
        if self.page is None:
            self.words, self.number = new_record(name), -1
        else:
            self.words, self.number = self.page.new_record(name, -1 if parent is None else parent.number)
        self.place_below(parent)

    def place_below(self, parent: Meter | None) -> None:
        """Become the last source of another meter, without its own sources and workers."""
        self.is_outermost = parent is None
        self.part = PartTiming() if parent is None else parent.part
        self.children: list[Meter] = []
        self.threads: list[Meter] = []
        self.processes: list[WorkerProcess] = []
        if parent is not None:
            parent.children.append(self)

    def read(self) -> Reading:
        """Return the record."""
        return read_record(self.words)

    # Passes ----------------------------------------------------------------------------------------------------------
    def one_pass(self, begin: Begin) -> Iterator[Any]:
        """Count the datapoints of a pass, and time some of them."""
        source = iter(begin())
        return self._outermost_pass(source) if self.is_outermost else self._inner_pass(source)

    # In both generators, no variable keeps the datapoint alive until the next one is asked for.
    def _inner_pass(self, source: Iterator[Any]) -> Iterator[Any]:
        words, part = self.words, self.part
        try:
            while True:
                words[COUNT] += 1
                if part.is_timing:
                    yield self._timed(source)
                else:
                    yield next(source)
        except StopIteration:
            words[COUNT] -= 1

    def _outermost_pass(self, source: Iterator[Any]) -> Iterator[Any]:
        words, part = self.words, self.part
        try:
            while True:
                words[COUNT] = count = words[COUNT] + 1
                if count < part.due:
                    yield next(source)
                else:
                    yield self._timed_with_sources(source, count)
        except StopIteration:
            words[COUNT] -= 1
        except Exception:  # in a script that iterates over a DataFlow
            end_briefly()
            raise

    def _timed_with_sources(self, source: Iterator[Any], count: int) -> Any:
        part = self.part
        part.begin()
        try:
            datapoint = self._timed(source)
        except BaseException:  # also the end of the pass, after which the next datapoint has the same number
            part.is_timing = False
            raise
        part.end(count)
        return datapoint

    def _timed(self, source: Iterator[Any]) -> Any:
        """Take the next datapoint, and add the time without that of nested calls and of the clocks."""
        part, words = self.part, self.words
        if part.thread != threading.get_ident():
            return next(source)
        entered = perf_counter_ns()
        outer_wall, outer_cpu = part.wall, part.cpu
        part.wall = part.cpu = 0
        part.num_timed += 1
        cpu_begin, begin = thread_time_ns(), perf_counter_ns()
        try:
            datapoint = next(source)
            words[NUM_TIMED] += 1
            words[NUM_BYTES] += _num_bytes(datapoint)
            return datapoint
        finally:
            wall, cpu = perf_counter_ns() - begin, thread_time_ns() - cpu_begin
            words[WALL] += max(0, wall - part.wall)
            words[CPU] += max(0, cpu - part.cpu)
            spent = perf_counter_ns() - entered
            part.wall = outer_wall + spent
            part.cpu = outer_cpu + cpu + min(spent - wall, 2 * COST_NS)

    def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call a function that makes a datapoint, count it, and time some calls."""
        self.words[COUNT] = count = self.words[COUNT] + 1
        if count < self.part.due:
            return function(argument)
        return self._timed_with_sources(map(function, (argument,)), count)

    # Waiting ---------------------------------------------------------------------------------------------------------
    def begin_wait(self, is_for_room: bool = False) -> None:
        """Begin to wait for input or for room, in the thread that calls `end_wait` afterwards."""
        self.words[STATE] = perf_counter_ns() << 3 | (WAITS_FOR_ROOM if is_for_room else WAITS_FOR_INPUT)

    def end_wait(self) -> None:
        """Add the time since `begin_wait`, and set the state WORKING."""
        words, now = self.words, perf_counter_ns()
        since, state = divmod(words[STATE], 8)
        words[WAITED_IN if state == WAITS_FOR_INPUT else WAITED_OUT] += now - since
        words[STATE] = now << 3 | WORKING
        part = self.part
        if part.is_timing and part.thread == threading.get_ident():
            part.wall += now - since

    def set_state(self, state: int) -> None:
        """Set a state that is not timed: IDLE, WORKING or ENDED."""
        self.words[STATE] = perf_counter_ns() << 3 | state

    def end(self) -> None:
        """Set the state ENDED."""
        self.set_state(ENDED)

    def add(self, num: int, wall: float, cpu: float) -> None:
        """Add datapoints that were all timed, with their times in seconds."""
        words = self.words
        words[NUM_TIMED] += num
        words[WALL] += int(wall * 1e9)
        words[CPU] += int(cpu * 1e9)


def stage_name(stage: object) -> str:
    """Return the class of a stage and its function, e.g. "MapData(resize)"."""
    function = static_attribute(stage, "map_func", static_attribute(stage, "func"))
    while type(function) is functools.partial:
        function = function.func
    has_name = type(function) in _NAMED or issubclass(type(function), type)
    name = function.__name__ if has_name else instance_attributes(function).get("__name__")
    return type(stage).__name__ + (f"({name})" if name else "")


class Metered:
    """Base class for stages that have a meter."""

    _meter: Meter | None = None  # after `reset_state`

    def _measure(self, above: Any) -> Meter:
        """Return the meter of this stage, which `above` reads in this thread. It continues earlier counts."""
        parent: Meter | None = None if above is None else above._meter
        if self._meter is None or self._meter.page is not _process.page:
            self._meter = Meter(stage_name(self), parent)
        else:
            self._meter.place_below(parent)
        host = current_meter() if parent is None else None
        if host is not None and self._meter not in host.threads:
            host.threads.append(self._meter)
        return self._meter


def current_meter() -> Meter | None:
    """Return the meter of the innermost stage whose `reset_state` is running in this thread, if any."""
    stage = current_stage()
    return None if stage is None else stage._meter


class _Process:
    """
    Records of this process.

    Attributes:
        page: in a worker: where its records are; otherwise None.
        worker: in a worker: its own meter.
    """

    page: Page | None = None
    worker: Meter | None = None


_process = _Process()


def begin_worker(name: str, page: Page | None) -> Meter:
    """
    Write all records of this process from now on to a page. A worker calls it at its start.

    Args:
        name: name of the worker.
        page: what the process that started it can read.

    Returns:
        The meter of the worker itself.
    """
    _process.page = page
    forget_stages()
    _process.worker = Meter(name)
    _process.worker.set_state(WORKING)
    return _process.worker


def this_worker() -> Meter:
    """Return the meter of this worker process; a new one elsewhere."""
    return _process.worker or Meter("function")


def _num_bytes(datapoint: Any) -> int:
    """Return the bytes of the arrays and strings of a datapoint."""
    components = datapoint.values() if isinstance(datapoint, dict) else datapoint
    if not isinstance(datapoint, (list, tuple, dict)):
        return 0
    return sum(
        component.nbytes if isinstance(component, np.ndarray) else len(component)
        for component in components
        if isinstance(component, (np.ndarray, bytes, str))
    )
