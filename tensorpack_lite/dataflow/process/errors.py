"""
An error of one process, raised in another: same type where it can be rebuilt, with the worker's traceback as its cause.
"""

from __future__ import annotations

import pickle
import signal
import traceback
from typing import Any, NoReturn

from ..base import DataFlowTerminated
from ..failure import error_text, stage_error

__all__ = ["WorkerDied", "WorkerTraceback", "describe_error", "died", "raise_described"]


class WorkerTraceback(Exception):
    """What a worker printed of its error, as the cause of the error that is raised here."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


class WorkerDied(RuntimeError):
    """A worker process ended without saying why: killed, crashed, or `os._exit`."""


def describe_error(error: BaseException, where: str) -> dict[str, Any]:
    """
    Put an error into what can be sent.

    Args:
        error: caught in this process.
        where: the stage and the process, e.g. "MultiProcessRunner: worker 0 (pid 4711), in FakeData".

    Returns:
        Strings, and bytes that hold the pickled error if it survives that.
    """
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {"where": where, "traceback": text, "summary": _summary(error), "pickled": _pickled_or_none(error)}


def raise_described(description: dict[str, Any]) -> NoReturn:
    """
    Raise the error of another process.

    Args:
        description: of `describe_error`.

    Raises:
        BaseException: named with the stage; of the type it had there, or a RuntimeError when that cannot be built from
            a text (see `stage_error`). Its cause is a WorkerTraceback.
    """
    where = description["where"]
    if description["pickled"] is None:
        error: BaseException = RuntimeError(f"{where}: {description['summary']}")
    else:
        error = stage_error(pickle.loads(description["pickled"]), where)
    raise error from WorkerTraceback(f"{where}:\n{description['traceback']}")


def died(who: str, where: str, index: int, pid: int | None, exitcode: int | None) -> WorkerDied:
    """
    Build the error for a worker that is gone.

    Args:
        who: the stage.
        where: what it ran, e.g. "in the DataFlow FakeData".
        index: number of the worker.
        pid: its process.
        exitcode: of `multiprocessing.Process`: -N for a signal; None if it closed its channel and lives.
    """
    if exitcode is None:
        how = "closed its channel"
    elif exitcode < 0:
        how = f"was killed by {_signal_name(-exitcode)}"
    else:
        how = f"ended with exit code {exitcode}"
    advice = (
        " Killed workers are often out of memory: look at `dmesg`." if exitcode == -signal.SIGKILL else ""
    )
    return WorkerDied(f"{who}: worker {index} (pid {pid}), {where}, {how}; its datapoints are lost.{advice}")


def _summary(error: BaseException) -> str:
    return f"{type(error).__name__}: {error_text(error)}"


def _pickled_or_none(error: BaseException) -> bytes | None:
    """
    Pickle an error, if that gives the same type back: constructors of users' errors may take anything.

    SystemExit and its like are not sent as what they are: the process that receives them would end, perhaps with 0.
    """
    if not isinstance(error, (Exception, DataFlowTerminated)):
        return None
    try:
        pickled = pickle.dumps(error)
        if type(pickle.loads(pickled)) is type(error):
            return pickled
    except Exception:  # noqa: BLE001 (whatever a user's error does when pickled: its text is sent instead)
        return None
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
