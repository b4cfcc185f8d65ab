"""
Transport of errors between processes.

The error keeps its type where it can be rebuilt, and its cause holds the traceback of the worker.
"""

from __future__ import annotations

import pickle
import signal
import traceback
from typing import Any, NoReturn

from ...utils.brief_traceback import shorten_traceback
from ...utils.errors import error_text
from ..base import DataFlowTerminated
from ..failure import stage_error

__all__ = ["WorkerDied"]


class WorkerTraceback(Exception):
    """The traceback of a worker as text; the cause of the error that is raised in this process."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


class WorkerDied(RuntimeError):
    """A worker process ended without sending an error: it was killed, it crashed or it called `os._exit`."""


def describe_error(error: BaseException, where: str) -> dict[str, Any]:
    """
    Describe an error so that it can be sent to another process.

    Args:
        error: an error that was caught in this process.
        where: the stage and the process, e.g. "MultiProcessRunner: worker 0 (pid 4711), in FakeData".

    Returns:
        A dict of strings, "traceback" without the frames of the libraries, and under "pickled" the pickled error as
        bytes, or None if it cannot be pickled.
    """
    shorten_traceback(error)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    summary = f"{type(error).__name__}: {error_text(error)}"
    return {"where": where, "traceback": text, "summary": summary, "pickled": _pickled_or_none(error)}


def raise_described(description: dict[str, Any]) -> NoReturn:
    """
    Raise the error of another process.

    Args:
        description: result of `describe_error`.

    Raises:
        BaseException: the error; its text begins with the stage. It has its original type, or is a RuntimeError if
            that type cannot be constructed from a message (see `stage_error`). Its cause is a WorkerTraceback.
    """
    where = description["where"]
    if description["pickled"] is None:
        error: BaseException = RuntimeError(f"{where}: {description['summary']}")
    else:
        error = stage_error(pickle.loads(description["pickled"]), where)
    raise error from WorkerTraceback(f"{where}:\n{description['traceback'].rstrip()}")


def died(who: str, where: str, index: int, pid: int | None, exitcode: int | None) -> WorkerDied:
    """
    Build the error for a worker that ended without sending an error.

    Args:
        who: name of the stage.
        where: the work of the worker, e.g. "in the DataFlow FakeData".
        index: number of the worker.
        pid: process of the worker.
        exitcode: as of `multiprocessing.Process`: -N for a signal; None if the process still runs but closed
            its channel.
    """
    if exitcode is None:
        how = "closed its channel"
    elif exitcode < 0:
        how = f"was killed by {_signal_name(-exitcode)}"
    else:
        how = f"ended with exit code {exitcode}"
    advice = ""
    if exitcode == -signal.SIGKILL:
        advice = " Linux kills processes when memory runs out: look at the output of `dmesg`."
    return WorkerDied(f"{who}: worker {index} (pid {pid}), {where}, {how}; its datapoints are lost.{advice}")


def _pickled_or_none(error: BaseException) -> bytes | None:
    """
    Pickle an error. Return None if unpickling gives another type: constructors of users' errors may take anything.

    SystemExit and KeyboardInterrupt are not pickled: they would end the receiving process, perhaps with exit code 0.
    """
    if not isinstance(error, (Exception, DataFlowTerminated)):
        return None
    try:
        pickled = pickle.dumps(error)
        return pickled if type(pickle.loads(pickled)) is type(error) else None
    except Exception:  # noqa: BLE001 (pickling a user's error may raise anything; its text is sent instead)
        return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
