"""
How an error of a worker reaches the consumer: with the name of the stage, as the type it had, with its cause.

In:  an exception that was caught in a worker.
Out: the exception that the consumer raises from it.
"""

from __future__ import annotations

from ..utils.errors import rebuild_error
from .base import DataFlowTerminated

__all__ = ["error_text", "stage_error"]


def stage_error(error: BaseException, where: str) -> BaseException:
    """
    Say in which stage an error of a worker happened; the consumer raises the result.

    Args:
        error: what was raised in a worker.
        where: the stage and the worker, e.g. "MultiThreadMapData: map_func failed in worker 1 of 2 (pid 4711)".

    Returns:
        An error whose text begins with `where`, and whose cause is `error` with its traceback. It has the type of `error`
        if that can be made from a text. Otherwise, and for what would end a loop or the interpreter instead of being
        noticed (StopIteration, SystemExit), it is a RuntimeError that names the type. DataFlowTerminated is no error, and
        comes back as it is.
    """
    if isinstance(error, DataFlowTerminated):
        return error
    named = _rebuild(error, where) or RuntimeError(f"{where}: {type(error).__name__}: {error_text(error)}")
    named.__cause__ = error
    return named


def error_text(error: BaseException) -> str:
    """
    Give the text of an error, also if its class is broken.

    Args:
        error: anything that was raised.
    """
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (the user's `__str__` may fail as well, and must not hide the error)
        return "(its text cannot be shown)"


def _rebuild(error: BaseException, where: str) -> BaseException | None:
    """An error of the same type; None if there should or can be none."""
    if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
        return None
    try:
        named = _rebuild_os_error(error, where) or rebuild_error(error, where)
    except Exception:  # noqa: BLE001 (a constructor of the user's own, which does not take texts)
        return None
    return named if where in error_text(named) else None  # not for a class that shows a text of its own


def _rebuild_os_error(error: Exception, where: str) -> OSError | None:
    """An error of the operating system has a number, by which scripts tell it apart, and the name of a file."""
    if not isinstance(error, OSError) or len(error.args) != 2 or not isinstance(error.strerror, str):
        return None
    names = [] if error.filename is None else [error.filename]
    return type(error)(error.errno, f"{where}: {error.strerror}", *names)
