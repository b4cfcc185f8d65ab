"""
Helpers for the library's errors, and the error that all readers raise for a damaged file.

A message names the class or function, then what is wrong (expected X, got Y), then what to do about it.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import Iterator

__all__ = ["DamagedFileError"]

# errno of an OSError that the content of a file causes: gzip, HDF5, a seek to an invalid position
_NOT_ABOUT_THE_DISK = (None, 0, errno.EINVAL)


class DamagedFileError(ValueError):
    """
    The content of a file is damaged or in another format than expected.

    All readers of the library raise it. The message starts with the path. Errors of the file system keep their types:
    a missing file is a FileNotFoundError, an unreadable one a PermissionError.
    """


def error_text(error: BaseException) -> str:
    """
    Return the message of an exception, even if its `__str__` raises.

    Args:
        error: any exception.
    """
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (a broken `__str__` must not hide the error)
        return "(its text cannot be shown)"


def describe_got(got: object) -> str:
    """Return the words for an object of the wrong type: its type, with the module for Keras; of a class, that it is one."""
    if isinstance(got, type):
        cure = "" if got.__module__ == "builtins" else f"; write {got.__name__}()"
        return f"the class {got.__name__}{cure}"
    kind = type(got)
    is_of_keras = "keras" in kind.__module__.split(".")
    return f"{kind.__module__}.{kind.__name__}" if is_of_keras else kind.__name__


def advice_on_keras_model(got: object) -> str:
    """Return how to train a Keras model; "" for any other object."""
    places = [kind.__module__.split(".") for kind in type(got).__mro__ if kind.__name__ == "Model"]
    is_model = any("keras" in place or "tf_keras" in place for place in places)
    return "To train a Keras model, use tensorpack_lite.contrib.keras.KerasModel." if is_model else ""


def type_error(who: str, expected: str, got: object, advice: str = "") -> TypeError:
    """
    Return the TypeError for an argument of the wrong type. See `checks.check_type` for checks that raise it.

    Args:
        who: the class or function, with the argument where it is not obvious.
        expected: the expected type in words, e.g. "a DataFlow".
        got: the given object. The message names its type; for a class that should be called, it says so.
        advice: a sentence with the remedy, or "".

    Example:
        >>> str(type_error("QueueInput", "a DataFlow", [1], "Wrap it: QueueInput(DataFromList(data))."))
        'QueueInput: expected a DataFlow, got list. Wrap it: QueueInput(DataFromList(data)).'
    """
    advice = advice or advice_on_keras_model(got)
    return TypeError(f"{who}: expected {expected}, got {describe_got(got)}. {advice}".rstrip())


def with_cause(error: BaseException, cause: BaseException | None) -> BaseException:
    """
    Return an error with another cause: what `raise error from cause` does, for an error that is raised later, or by others.

    Args:
        error: the error.
        cause: the error that has caused it; None for none.
    """
    error.__cause__ = cause
    return error


def rebuild_error(error: BaseException, where: str) -> BaseException:
    """
    Return an error of the same type whose message names the stage that raised it.

    The caller raises the result `from error`, so that its cause has the traceback of the stage.

    Args:
        error: an error that was raised in a thread, a worker or a callee.
        where: the stage, e.g. "QueueInput: the DataFlow MapData failed".

    Returns:
        A new error of the same type with the text `"<where>: <text of error>"`, or the error itself if it has other
        arguments than one text (`OSError(errno, ...)`, `UnicodeDecodeError`, classes with another constructor).
    """
    if len(error.args) > 1 or not all(isinstance(arg, str) for arg in error.args):
        return error
    try:
        named = type(error)(f"{where}: {error.args[0] if error.args else type(error).__name__}")
    except TypeError:  # a constructor with other arguments
        return error
    return named if type(named) is type(error) else error


@contextmanager
def parsing(path: object, what: str, advice: str = "") -> Iterator[None]:
    """
    Turn any error of a parser into a DamagedFileError that names the file.

    Parsers raise nearly any type for damaged input: IndexError, zlib.error, MemoryError and many more. Put
    only the parser into the context, not checks of arguments or a user's code.

    Args:
        path: the file, or an entry in it.
        what: the format, e.g. "an npz file".
        advice: a sentence with the remedy, or "".

    Raises:
        DamagedFileError: the context raised an error. A DamagedFileError is not changed.
        OSError: the file is missing, may not be read, or the disk fails.
        ImportError: a package that the reader uses is not installed.
    """
    try:
        yield
    except DamagedFileError:
        raise
    except Exception as error:  # damaged input makes parsers raise anything
        if _is_about_this_machine(error):
            raise
        raise DamagedFileError(f"{path} cannot be read as {what}: {_reason(error)}. {advice}".rstrip()) from error


def _is_about_this_machine(error: Exception) -> bool:
    """Return whether the disk or a missing package is the cause. (A damaged pickle may name a module that does not exist.)"""
    if isinstance(error, OSError):
        return error.errno not in _NOT_ABOUT_THE_DISK
    return isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError)


def _reason(error: Exception) -> str:
    """Return the first line of an error's text, with the name of its type unless it is a ValueError."""
    lines = str(error).strip().splitlines()
    text = lines[0].rstrip(":. ") if lines else ""
    if type(error) is ValueError and text:
        return text
    return f"{text} ({type(error).__name__})".lstrip()
