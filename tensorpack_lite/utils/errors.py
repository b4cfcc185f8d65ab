"""
Helpers for the library's errors, and the error that every reader of files raises for a damaged file.

A message names the class or function, then what is wrong (expected X, got Y), then what to do about it.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import Iterator

__all__ = ["DamagedFileError", "parsing", "rebuild_error", "type_error"]

_NOT_ABOUT_THE_DISK = (
    None,
    0,
    errno.EINVAL,
)  # errno of an OSError that stems from the bytes: gzip, HDF5, a wild seek


class DamagedFileError(ValueError):
    """
    The content of a file is damaged, or is not in the format that its reader expects.

    Every reader of the library raises it for every format. The message starts with the path. Errors of the file system
    keep their types: a missing file is a FileNotFoundError, one that may not be read a PermissionError.
    """


def type_error(who: str, wanted: str, got: object, advice: str = "") -> TypeError:
    """
    Build the TypeError for an argument of the wrong kind; the caller raises it.

    Args:
        who: the class or function that complains, with the argument where it is not obvious.
        wanted: what it takes, e.g. "a DataFlow".
        got: the object that came; its type is named.
        advice: one sentence of what to do, or "".

    Example:
        >>> str(type_error("QueueInput", "a DataFlow", [1], "Wrap it: QueueInput(DataFromList(data))."))
        'QueueInput: takes a DataFlow, got list. Wrap it: QueueInput(DataFromList(data)).'
    """
    return TypeError(f"{who}: takes {wanted}, got {type(got).__name__}. {advice}".rstrip())


def rebuild_error(error: BaseException, where: str) -> BaseException:
    """
    Give an error of a background stage the name of that stage, and keep its type.

    The caller raises the result `from error`, so that the traceback of the stage is its cause.

    Args:
        error: what was raised in a thread, a worker or a callee.
        where: the stage, e.g. "QueueInput: the DataFlow MapData failed".

    Returns:
        A new error of the same type with the text `"<where>: <text of error>"`; the error itself when its
        type holds more than one text (`OSError(errno, ...)`, `UnicodeDecodeError`, classes with a
        constructor of their own).
    """
    if len(error.args) > 1 or not all(isinstance(arg, str) for arg in error.args):
        return error
    try:
        named = type(error)(f"{where}: {error.args[0] if error.args else type(error).__name__}")
    except TypeError:  # a constructor of its own, with other arguments
        return error
    return named if type(named) is type(error) else error


@contextmanager
def parsing(path: object, what: str, advice: str = "") -> Iterator[None]:
    """
    Turn whatever a parser raises for the bytes of a file into a DamagedFileError that names the file.

    Parsers raise nearly any type for damaged input: IndexError, zlib.error, MemoryError and many more. Put only the parser
    into the body, no checks of the caller's arguments and nothing of the user's.

    Args:
        path: of the file, or of the entry in it.
        what: the format, e.g. "an npz file".
        advice: one sentence of what to do, or "".

    Raises:
        DamagedFileError: the body raised an error. One that is raised in the body passes through as it is.
        OSError: the file is missing, may not be read, or the disk fails.
        ImportError: a package that the reader needs is not installed.
    """
    try:
        yield
    except DamagedFileError:
        raise
    except Exception as error:  # damaged input makes parsers raise anything
        if _is_about_this_machine(error):
            raise
        raise DamagedFileError(
            f"{path} cannot be read as {what}: {_reason(error)}. {advice}".rstrip()
        ) from error


def _is_about_this_machine(error: Exception) -> bool:
    """Tell whether the disk or an absent package is the cause; a damaged pickle may name a module that does not exist."""
    if isinstance(error, OSError):
        return error.errno not in _NOT_ABOUT_THE_DISK
    return isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError)


def _reason(error: Exception) -> str:
    """Return the first line of an error's text, with the type's name unless it is a plain ValueError."""
    lines = str(error).strip().splitlines()
    text = lines[0].rstrip(":. ") if lines else ""
    if type(error) is ValueError and text:
        return text
    return f"{text} ({type(error).__name__})".lstrip()
