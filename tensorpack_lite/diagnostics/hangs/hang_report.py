"""The paragraph that describes where a training stands, and for whom it waits."""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple, Sequence

from ...callbacks.inference_runner import InferenceRunnerBase
from ...dataflow.records import ENDED, STATE_WORDS, WAITS_FOR_ROOM
from ...input_source.base import InputSource, ProxyInputSource
from ...input_source.enqueue import EnqueueThread
from ...input_source.queueing import QueueInput
from ...input_source.reset import inputs_of
from ...input_source.staging import StagingInput
from ...loop.extension import ExtendedTrainer
from ...loop.group import innermost
from ...utils.frames import frames_of_threads
from ...utils.memory import describe_shortage
from ...utils.process_state import describe_trouble
from ...utils.stacks import Line, describe_place, format_stacks, is_in_lock, lines_of
from .wait_graph import find_chain

_FOR_ROOM, _ENDED = STATE_WORDS[WAITS_FOR_ROOM], STATE_WORDS[ENDED]
_SESSIONS = (os.path.join("python", "client", "session.py"), os.path.join("compat", "session.py"))
_FEED = os.path.join("input_source", "feed.py")
_BEFORE_THE_FIRST = "StagingInput puts it there in the first step; evaluate tensors of the model only after that."
_PY_FUNC = "script_ops.py"
_MAX_THREADS = 4


class HangReport(NamedTuple):
    """
    Description of the place where a training stands.

    Attributes:
        text: a paragraph for people.
        stacks: the stacks of all threads, and of the workers that do not move.
        pids: this process, and the workers that do not move.
    """

    text: str
    stacks: str
    pids: list[int]


def make_report(trainer: ExtendedTrainer, main: threading.Thread) -> HangReport:
    """
    Describe where a training stands. Any thread of its process may call it.

    Args:
        trainer: a Trainer whose loop runs.
        main: the thread of the loop.
    """
    stack = stack_of(main)
    source, is_fed = _find_source(trainer, stack), _is_in(stack, _FEED)
    lines, pids = [_describe_main(trainer, stack, source)], [os.getpid()]
    stacks = [f"The training, pid {os.getpid()}:\n{format_stacks()}"]
    meters = [] if source is None else source.flow.meters()
    waits_for_thread = len(meters) > 1 and meters[0].read().state != _FOR_ROOM
    if meters and (is_fed or waits_for_thread):
        thread = _enqueue_thread(source)
        chain = find_chain(meters[-1], main if thread is None else thread.reader)
        lines += [f"  <- {line}" for line in chain.lines]
        stacks += chain.stacks
        pids += chain.pids
    for lines_of_thread in [lines_of(frame) for frame in frames_of_threads().values()]:
        if _is_in(lines_of_thread, _PY_FUNC):
            lines.append(f"  The graph is calling a py_func, at {describe_place(lines_of_thread)}.")
    lines += _threads_in_locks(main) if is_in_lock(stack) else []
    shortage = describe_shortage()
    lines += [f"  {shortage}"] if shortage else []
    return HangReport("\n".join(lines), "\n\n".join(stacks), pids)


def kind_of_place(trainer: ExtendedTrainer) -> str:
    """Return what the main thread does: "step", or a callback and its moment."""
    call = trainer.current_call
    return "step" if call is None else f"{call.callback}, {call.moment}"


def stack_of(thread: threading.Thread) -> list[Line]:
    """Return the stack of a thread, the innermost line first."""
    return lines_of(frames_of_threads().get(thread.ident or 0))


def _find_source(trainer: ExtendedTrainer, stack: Sequence[Line]) -> InputSource | None:
    """Return the input whose data a run of the main thread uses: that of the training or of an InferenceRunner."""
    if not any(_is_in(stack, file) for file in (*_SESSIONS, _FEED)):
        return None
    call = trainer.current_call
    callback = None if call is None else innermost(call.callback)
    if isinstance(callback, InferenceRunnerBase):
        return callback._input_source
    sources = inputs_of(trainer)
    return sources[0] if len(sources) == 1 else None


def _enqueue_thread(source: Any) -> EnqueueThread | None:
    """Return the thread of an input; None if the thread that runs the session reads the DataFlow."""
    while isinstance(source, ProxyInputSource):
        source = source._input
    return source.thread if isinstance(source, QueueInput) else None


def _describe_main(trainer: ExtendedTrainer, stack: Sequence[Line], source: InputSource | None) -> str:
    call, step, is_fed = trainer.current_call, trainer.global_step, _is_in(stack, _FEED)
    if call is not None and not is_fed:
        what = f"{call.callback} ({call.moment[1:]}, after step {step})"
    elif trainer.is_in_run:
        what = f"Step {step + 1} (epoch {trainer.epoch_num})"
    else:
        what = f"The loop, after step {step},"
    if is_fed:
        return f"{what} waits for data, which the main thread reads."
    if source is None:
        place = f": the main thread is at {describe_place(stack)}" if stack else ""
        trouble = describe_trouble(os.getpid())  # of the main thread
        return f"{what} does not end{place}{f'; it {trouble}' if trouble else ''}."
    if isinstance(source, StagingInput) and source.is_empty:
        return f"{what} is inside session.run, which waits for a datapoint on the device. {_BEFORE_THE_FIRST}"
    if not source.flow.meters():
        return f"{what} is inside session.run. {type(source).__name__} does not tell whether data is missing."
    who, state = source.flow.meters()[0].name.partition(":")[0], source.flow.meters()[0].read().state
    thread = _enqueue_thread(source)
    if thread is not None and thread.ident is None:
        return (
            f"{what} waits for data, but the thread of {who} was never started: the callbacks of the input are missing."
        )
    if state == _FOR_ROOM:
        cause = ", or waits for another rank" if trainer.size > 1 else ""
        return (
            f"{what} is inside session.run. The data is ready ({who} is full), so the graph itself does not end{cause}."
        )
    if state == _ENDED:
        return f"{what} waits for data, but the thread of {who} has ended."
    return f"{what} waits for data: {who} is empty."


def _is_in(stack: Sequence[Line], file: str) -> bool:
    return any(line.path.endswith(file) for line in stack)


def _threads_in_locks(main: threading.Thread) -> list[str]:
    """Return a line for each other thread that waits for a lock. Who holds a lock cannot be seen."""
    lines = []
    for thread in threading.enumerate():
        stack = [] if thread is main else stack_of(thread)
        if is_in_lock(stack):
            lines.append(
                f"  Thread {thread.name} waits for a lock, too, at {describe_place(stack)}. If each of the two holds the lock "
                "that the other one wants, this is a deadlock: take both locks in the same order."
            )
    return lines[:_MAX_THREADS]
