"""
Tracebacks without the frames of this library, of TensorFlow and of Python's standard library.

The frames that remain are those of the user and of other packages, and the innermost frame, where the error was raised. If the
environment variable TENSORPACK_LITE_FULL_TRACEBACK is set, nothing is omitted.
"""

from __future__ import annotations

import os
import re
import sysconfig
from types import TracebackType

from .errors import error_text, with_cause

_LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\](\w+)")
_TENSORFLOW = ("tensorflow", "tensorflow_core", "tensorflow_estimator", "keras", "tf_keras", "tf_slim")
# a frame in TensorFlow's messages; on TF 1.15 its source follows, with a larger indentation
_STACK_LINE = re.compile(r'^( *)File "([^"]+)", line \d+, in .*\n(?:\1 +(?!File ").*\n)*', re.MULTILINE)


def shows_all() -> bool:
    """Return whether the user wants to see all frames."""
    return bool(os.environ.get("TENSORPACK_LITE_FULL_TRACEBACK"))


def shorten_traceback(error: BaseException) -> int:
    """
    Shorten the traceback of an error, and those of the errors that have caused it.

    An error that the library has raised for another one, with the same text and more, is merged with it.

    Args:
        error: an error that nothing will handle any more, because its traceback and its cause are replaced.

    Returns:
        The number of frames that were omitted.
    """
    num_left_out, seen, shortened = 0, {id(error)}, error
    while not shows_all():
        frames, cause = _frames(shortened), _cause(shortened)
        while cause is not None and id(cause) not in seen and _is_repeated(cause, shortened, frames):
            seen.add(id(cause))
            frames += _frames(cause)
            cause = _cause(cause)
            with_cause(shortened, cause)
        shown = [frame for frame in frames[:-1] if not _is_of_library(frame)] + frames[-1:]
        shortened.with_traceback(_joined(shown))
        num_left_out += len(frames) - len(shown)
        if cause is None or id(cause) in seen:
            break
        seen.add(id(cause))
        shortened = cause
    return num_left_out


def shorten_stacks(text: str) -> str:
    """
    Shorten the stacks in a message of TensorFlow.

    Args:
        text: a message with lines as `File "model.py", line 12, in build_graph`.
    """
    if shows_all():
        return text
    return _STACK_LINE.sub(_without_library, text)


def _without_library(found: re.Match[str]) -> str:
    path = found.group(2)
    # TF 1.15 leaves out the beginning that all paths share
    return "" if _is_library_path(path) or _is_library_path(os.sep + path) else found.group(0)


def _is_repeated(cause: BaseException, error: BaseException, frames: list[TracebackType]) -> bool:
    """Return whether an error that the library has raised says all that its cause says."""
    if not frames or not _is_of_library(frames[-1]):
        return False
    text, whole = error_text(cause), error_text(error)
    return text in whole if text else type(cause) is type(error) or type(cause).__name__ in whole


def _cause(error: BaseException) -> BaseException | None:
    """Return the error that Python prints before another one."""
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


def _frames(error: BaseException) -> list[TracebackType]:
    found, place = [], error.__traceback__
    while place is not None:
        found.append(place)
        place = place.tb_next
    return found


def _joined(frames: list[TracebackType]) -> TracebackType | None:
    place = None
    for frame in reversed(frames):
        place = TracebackType(place, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return place


def _is_of_library(frame: TracebackType) -> bool:
    return _is_library_path(frame.tb_frame.f_code.co_filename)


def _is_library_path(path: str) -> bool:
    installed = _INSTALLED.search(path)
    if path.startswith(_LIBRARY):
        return True
    if installed:
        return installed.group(2) in _TENSORFLOW
    return path.startswith((_STANDARD, "<frozen "))
