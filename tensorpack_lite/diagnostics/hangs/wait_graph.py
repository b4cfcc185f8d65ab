"""
The chain of stages, threads and workers that wait for each other, from the consumer of a pipeline to the one that does not
wait.

It is read from the meters of the stages (`meter.py`), the stacks of this process, and the stacks that workers write.
"""

from __future__ import annotations

import re
import threading
from typing import NamedTuple, Sequence

from ...dataflow.meter import Meter, WorkerProcess
from ...dataflow.records import ENDED, STATE_WORDS, WAITS_FOR_INPUT, WAITS_FOR_ROOM, Reading
from ...utils.frames import frames_of_threads
from ...utils.naming import list_names
from ...utils.process_state import describe_trouble
from ...utils.stacks import Line, describe_argument, describe_place, is_in_lock, lines_of, parse_stacks

_FOR_INPUT, _FOR_ROOM, _ENDED = (STATE_WORDS[state] for state in (WAITS_FOR_INPUT, WAITS_FOR_ROOM, ENDED))
_STUCK_SECONDS = 1.0  # how long a worker has not moved before it is asked for its stacks
_MAX_NAMED = 4  # workers of one stage
_OPENCV = re.compile(r"\bcv2\.")
_IN_LOCK = " (was this lock held when the worker was forked? See docs/hangs.md)"
_IN_OPENCV = " (OpenCV's threads do not survive a fork: call cv2.setNumThreads(0), or use spawn. See docs/hangs.md)"


class Stack(NamedTuple):
    """
    Place of a thread.

    Attributes:
        lines: its stack, the innermost line first; empty if it is unknown.
        datapoint: a description of the datapoint that a function of the user works on; "" if there is none.
    """

    lines: list[Line]
    datapoint: str = ""

    def __str__(self) -> str:
        datapoint = f" ({self.datapoint})" if self.datapoint else ""
        return datapoint + (f", at {describe_place(self.lines)}" if self.lines else "")


class Chain(NamedTuple):
    """
    Stages, threads and workers, each of which waits for the next.

    Attributes:
        lines: phrases, from the consumer to the one that does not wait.
        stacks: stacks of the worker processes that do not move, as `faulthandler` writes them.
        pids: of these workers.
    """

    lines: list[str]
    stacks: list[str]
    pids: list[int]


def find_chain(meter: Meter, thread: threading.Thread | None) -> Chain:
    """
    Return the chain of waiting in a pipeline.

    Args:
        meter: of its outermost stage.
        thread: the thread that reads it; None if unknown.
    """
    chain = Chain([], [], [])
    _follow(meter, _stack_of(thread), chain)
    return chain


def _follow(meter: Meter, stack: Stack, chain: Chain) -> None:
    """Add the stages that are read in one thread, and then the workers that the thread waits for."""
    stages = _stages_below(meter)
    waiting = next((stage for stage in stages if _waits_for_workers(stage)), None)
    if waiting is None:
        readings = [stage.read() for stage in stages]
        chain.lines.append(f"{_describe_stages(readings, stack)}{stack}")
    elif waiting.processes:
        _add_processes(waiting, chain)
    else:
        _add_threads(waiting, chain)


def _stages_below(meter: Meter) -> list[Meter]:
    return [meter, *(stage for child in meter.children for stage in _stages_below(child))]


def _waits_for_workers(meter: Meter) -> bool:
    return bool(meter.processes or meter.threads) and meter.read().state == _FOR_INPUT


# Processes -----------------------------------------------------------------------------------------------------------
def _add_processes(meter: Meter, chain: Chain) -> None:
    chain.lines.append(f"{meter.name} waits for its workers")
    idle, causes = [], []
    for worker in meter.processes:
        readings, trouble = worker.read(), describe_trouble(worker.process.pid)
        first = readings[0] if readings else None
        if trouble == "" and first is not None and first.state in (_FOR_INPUT, _FOR_ROOM, _ENDED):
            idle.append((worker, first.state))
        else:
            causes.append((not trouble, worker, readings, trouble))
    for _, worker, readings, trouble in sorted(causes, key=lambda cause: cause[:1])[:_MAX_NAMED]:
        chain.lines.append(_describe_worker(meter, worker, readings, trouble, chain))
    if len(causes) > _MAX_NAMED:
        chain.lines.append(f"{len(causes) - _MAX_NAMED} more workers do not wait either")
    for state in (_FOR_INPUT, _FOR_ROOM, _ENDED):
        same = [worker for worker, its_state in idle if its_state == state]
        if same:
            names = list_names([f"{worker.number} (pid {worker.process.pid})" for worker in same], _MAX_NAMED)
            chain.lines.append(f"worker{'s' * (len(same) > 1)} {names}: {state}")


def _describe_worker(meter: Meter, worker: WorkerProcess, readings: list[Reading], trouble: str, chain: Chain) -> str:
    stack = Stack([], worker.stacks.note if worker.stacks is not None else "")
    if not trouble:
        stack = stack._replace(lines=_ask_worker(meter, worker, readings, chain))
    text = f"worker {worker.number} (pid {worker.process.pid}) {trouble or _describe_work(readings)}"
    if len(readings) > 1:
        text += f", {_describe_stages(readings[1:], stack)}"
    return text + str(stack) + (_advise_about_fork(stack) if _is_first(readings) else "")


def _describe_work(readings: list[Reading]) -> str:
    """Say how long the function of a worker has worked on its datapoint, if that is known."""
    if len(readings) != 2 or readings[1].num_timed >= readings[1].count:
        return "works"
    function = readings[1]
    usual = f" (usually {_duration(function.wall / function.num_timed)})" if function.num_timed else ""
    return f"has worked for {_duration(readings[0].seconds_in_state)}{usual}"


def _is_first(readings: list[Reading]) -> bool:
    """Return whether a worker is at its first datapoint since it was started, or has not sent it yet."""
    return bool(readings) and (readings[1].count == 1 if len(readings) == 2 else readings[0].count == 0)


def _advise_about_fork(stack: Stack) -> str:
    if is_in_lock(stack.lines):
        return _IN_LOCK
    return _IN_OPENCV if stack.lines and _OPENCV.search(describe_place(stack.lines)) else ""


def _ask_worker(meter: Meter, worker: WorkerProcess, readings: list[Reading], chain: Chain) -> list[Line]:
    """Return the stack of a worker's main thread if the worker does not move, and keep all of its stacks."""
    if worker.stacks is None or not readings or readings[0].seconds_in_state < _STUCK_SECONDS:
        return []
    chain.pids.append(worker.process.pid)
    text = worker.stacks.ask(worker.process.pid)
    if not text:
        return []
    chain.stacks.append(f"{meter.name}, worker {worker.number} (pid {worker.process.pid}):\n{text}")
    for stack in parse_stacks(text):
        if any(line.function == "run_worker" for line in stack):
            return stack
    return []


# Threads -------------------------------------------------------------------------------------------------------------
def _add_threads(meter: Meter, chain: Chain) -> None:
    chain.lines.append(f"{meter.name} waits for its threads")
    stage = meter.name.partition("(")[0]
    threads = {thread.name: thread for thread in threading.enumerate()}
    idle = 0
    for number, worker in enumerate(meter.threads):
        if worker.read().state in (_FOR_INPUT, _FOR_ROOM, _ENDED) and not _waits_for_workers(worker):
            idle += 1
            continue
        thread = threads.get(f"{stage}-{number}")
        stack = _stack_of(thread)
        below = Chain([], chain.stacks, chain.pids)
        _follow(worker, stack, below)
        chain.lines.append(f"thread {number}: {below.lines[0]}")
        chain.lines.extend(below.lines[1:])
    if idle:
        chain.lines.append(f"{idle} other thread{'s wait' if idle > 1 else ' waits'}")


def _stack_of(thread: threading.Thread | None) -> Stack:
    frame = None if thread is None else frames_of_threads().get(thread.ident or 0)
    return Stack(lines_of(frame), describe_argument(frame))


# Stages in one thread ------------------------------------------------------------------------------------------------
def _describe_stages(readings: Sequence[Reading], stack: Stack) -> str:
    """
    Name the stage that works, and its datapoint.

    The stage is the one whose function is in the stack. Otherwise all stages are named, from the last to the first.
    """
    functions = {line.function for line in stack.lines}
    for reading in reversed(readings):
        # a stage with a function, or the function of a map
        function = reading.name.partition("(")[2][:-1] if reading.name.endswith(")") else reading.name
        if function in functions or len(readings) == 1:
            return f"in {reading.name}, on its datapoint {reading.count}"
    names = " <- ".join(reading.name for reading in readings)
    return f"in {names}, on datapoint {readings[-1].count} of {readings[-1].name}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
