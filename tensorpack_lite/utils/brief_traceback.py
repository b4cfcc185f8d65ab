"""
Tracebacks without the frames of this library, of TensorFlow and of Python's standard library.

The frames that remain are those of the user and of other packages, and the innermost frame, where the error was raised. If the
environment variable TENSORPACK_LITE_FULL_TRACEBACK is set, nothing is omitted. An error that ends a script is printed so, and Ctrl-C as one line.
"""

from __future__ import annotations

import io
import os
import re
import sys
import sysconfig
from contextlib import redirect_stderr
from types import TracebackType

from .errors import error_text, with_cause
from .frames import LIBRARY
from .script_end import Show, at_error
from .streams import standard_streams

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
    if path.startswith(LIBRARY):
        return True
    if installed:
        return installed.group(2) in _TENSORFLOW
    return path.startswith((_STANDARD, "<frozen "))


class EndsBriefly:
    """
    Context manager around a training, or the building of its graph.

    If nothing catches an error that leaves it, the script prints a traceback without the frames of the libraries, and after
    Ctrl-C one line. Other errors of the script are printed so from then on, too.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            if not hasattr(error, "exit_code"):  # `Interrupted` has one
                error.exit_code = None  # type: ignore[attr-defined]  # read by the hook
            end_briefly()
        elif isinstance(error, Exception):
            end_briefly()


def end_briefly() -> None:
    """From now on, print the error that ends the script without the frames of the libraries."""
    at_error(_print_briefly)


def _print_briefly(
    show: Show, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    with standard_streams():
        _print_to_stderr(show, kind, error)


def _print_to_stderr(show: Show, kind: type[BaseException], error: BaseException) -> None:
    sys.stdout.flush()
    if isinstance(error, KeyboardInterrupt) and hasattr(error, "exit_code"):
        sys.stderr.write(f"KeyboardInterrupt: {str(error) or 'Ctrl-C ended the training.'}\n")
        if error.exit_code is not None:
            raise SystemExit(error.exit_code)
        return
    num_left_out = shorten_traceback(error)
    if num_left_out:
        sys.stderr.write(
            f"{num_left_out} frames of tensorpack_lite, TensorFlow and Python are hidden; "
            "TENSORPACK_LITE_FULL_TRACEBACK=1 shows them.\n"
        )
    text = error_text(error)
    short = shorten_stacks(text)
    if text == short:
        show(kind, error, error.__traceback__)
        return
    with redirect_stderr(io.StringIO()) as printed:
        show(kind, error, error.__traceback__)
    sys.stderr.write(printed.getvalue().replace(text, short))
