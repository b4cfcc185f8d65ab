"""
Conversion of a worker's error for the consumer: the same type, with the name of the stage and the original as cause.

In:  an exception that was caught in a worker.
Out: the exception that the consumer raises.
"""

from __future__ import annotations

import os
import traceback
from typing import Any, Callable

from ..utils.errors import DamagedFileError, error_text, rebuild_error, with_cause
from ..utils.stacks import Line
from .base import DataFlowTerminated


def stage_error(error: BaseException, where: str) -> BaseException:
    """
    Return the exception that the consumer raises for an error of a worker. It names the stage and the worker.

    Args:
        error: the exception that was raised in a worker.
        where: the stage and the worker, e.g. "MultiThreadMapData: map_func failed in worker 1 of 2 (pid 4711)".

    Returns:
        An exception whose message starts with `where`, and whose cause is `error` with its traceback. It has
        the type of `error` if that type can be constructed from a message. Otherwise it is a RuntimeError
        that names the type, also for exceptions that would silently end a loop or the interpreter
        (StopIteration, SystemExit). DataFlowTerminated marks the end of the data and is returned unchanged.
    """
    if isinstance(error, DataFlowTerminated):
        return error
    named = _rebuild(error, where) or RuntimeError(f"{where}: {type(error).__name__}: {error_text(error)}")
    return with_cause(named, error)


def function_name(func: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a callable object, for messages."""
    return str(getattr(func, "__name__", type(func).__name__))


def describe_failure(func: Callable[..., Any], error: BaseException) -> str:
    """
    Return a phrase about an error that a function raised: "resize failed at train.py:12".

    Args:
        func: the function.
        error: the error that was caught. The line is the innermost one of the user's code.
    """
    return f"{function_name(func)} failed{user_line(error)}"


def named_error(error: Exception, stage: object, func: Callable[..., Any]) -> BaseException:
    """
    Return an error of a user's function with the names of the stage and the function in its message.

    The caller writes `raise named from named.__cause__`.

    Args:
        error: the error that the function raised.
        stage: the DataFlow that called the function.
        func: the function.

    Returns:
        An error of the same type, whose cause is `error`; or `error` itself, if it names a damaged file, or if its type cannot be
        constructed from a message.
    """
    if isinstance(error, DamagedFileError):
        return error
    named = rebuild_error(error, f"{type(stage).__name__}: {describe_failure(func, error)}")
    return error if named is error else with_cause(named, error)


def user_line(error: BaseException) -> str:
    """
    Return the innermost line of the user's code in the traceback of an error, as " at train.py:12".

    Args:
        error: an error that was caught in this process.

    Returns:
        The line; "" if there is none, or if the message of the error names a line already.
    """
    stack = traceback.extract_tb(error.__traceback__)
    lines = [Line(frame.filename, frame.lineno or 0, frame.name) for frame in stack]
    users = [f" at {os.path.basename(line.path)}:{line.number}" for line in lines if line.is_of_user]
    return users[-1] if users and users[-1] not in error_text(error) else ""


def _rebuild(error: BaseException, where: str) -> BaseException | None:
    """Return an error of the same type, or None if that is impossible or would be misleading."""
    if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
        return None
    try:
        named = _rebuild_os_error(error, where) or rebuild_error(error, where)
    except Exception:  # noqa: BLE001 (the constructor of a user's class may not accept a message)
        return None
    return named if where in error_text(named) else None  # a class may ignore the message that it is given


def _rebuild_os_error(error: Exception, where: str) -> OSError | None:
    """Return an OSError with the same errno and file name, which scripts may read."""
    if not isinstance(error, OSError) or len(error.args) != 2 or not isinstance(error.strerror, str):
        return None
    names = [] if error.filename is None else [error.filename]
    return type(error)(error.errno, f"{where}: {error.strerror}", *names)
