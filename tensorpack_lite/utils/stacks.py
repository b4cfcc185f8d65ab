"""Stacks of threads as text, with the line of the user's code that a thread executes."""

from __future__ import annotations

import linecache
import os
import re
import threading
import traceback
from types import FrameType
from typing import Any, NamedTuple, Sequence

import numpy as np

from .frames import LIBRARY, frames_of_threads
from .inspection import is_installed

_FAULTHANDLER_LINE = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')
_LOCK = re.compile(r"\.acquire\(|with .*lock", re.IGNORECASE)
_MAX_LENGTH = 100  # of a description


class Line(NamedTuple):
    """
    A line of a stack.

    Attributes:
        path: the file.
        number: number of the line; 0 if unknown.
        function: name of the function.
    """

    path: str
    number: int
    function: str

    @property
    def is_of_user(self) -> bool:
        """Whether the file belongs neither to this library, to the standard library nor to an installed package."""
        return not (is_installed(self.path) or self.path.startswith("<"))

    def __str__(self) -> str:
        source = linecache.getline(self.path, self.number).strip()
        text = f"{os.path.basename(self.path)}:{self.number} {self.function}"
        return f"{text}: {source}" if source else text


def lines_of(frame: FrameType | None) -> list[Line]:
    """Return the lines of a stack, the innermost first."""
    stack = [] if frame is None else traceback.walk_stack(frame)
    return [Line(frame.f_code.co_filename, number or 0, frame.f_code.co_name) for frame, number in stack]


def describe_argument(frame: FrameType | None) -> str:
    """
    Describe the datapoint that a function of the user works on: the first string, bytes or integer in its first argument.

    If the function, or the object whose method it is, has an attribute `describe`, its result for the argument is used.

    Args:
        frame: the innermost frame of a thread.

    Returns:
        Its `repr`, or the result of `describe`, shortened; "" if the library has not called such a function.
    """
    while frame is not None and frame.f_back is not None:
        line, caller = (Line(place.f_code.co_filename, 0, "") for place in (frame, frame.f_back))
        if line.is_of_user and caller.path.startswith(LIBRARY):
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            arguments = [frame.f_locals.get(name) for name in names if name != "self"]
            return _describe_with(frame, frame.f_back, arguments[0]) if arguments else ""
        frame = frame.f_back
    return ""


def _describe_with(frame: FrameType, caller: FrameType, datapoint: Any) -> str:
    """Describe the datapoint with `describe` of the function in `frame`, or of its object; else with the default."""
    try:
        stage = caller.f_locals.get("self")
        function = caller.f_locals.get("map_func", getattr(stage, "map_func", getattr(stage, "func", None)))
        for owner in (function, frame.f_locals.get("self")):
            describe: Any = getattr(owner, "describe", None)
            if callable(describe):
                return str(describe(datapoint))[:_MAX_LENGTH]
    except Exception as error:  # noqa: BLE001 (code of the user, which must not end the report)
        return f"describe() failed: {type(error).__name__}: {error}"[:_MAX_LENGTH]
    return _describe_datapoint(datapoint)


def _describe_datapoint(datapoint: object) -> str:
    components = datapoint.values() if isinstance(datapoint, dict) else datapoint
    if not isinstance(datapoint, (list, tuple, dict)):
        components = [datapoint]
    for component in components:  # type: ignore[attr-defined]
        if isinstance(component, (str, bytes)):
            return repr(component[:_MAX_LENGTH])
        if isinstance(component, (int, np.integer)):
            return repr(int(component))
    return ""


def describe_place(lines: Sequence[Line]) -> str:
    """
    Return the innermost line of the user's code that the library has called, with its source; else the innermost line.

    Args:
        lines: a stack, the innermost line first; not empty.
    """
    is_library = [line.path.startswith(LIBRARY) for line in lines]
    for number, line in enumerate(lines):
        if line.is_of_user and (any(is_library[number:]) or not any(is_library)):
            return str(line)
    return str(lines[0])


def is_in_lock(lines: Sequence[Line]) -> bool:
    """Return whether the innermost line is of the user and takes a lock, as far as its source shows."""
    return bool(lines) and lines[0].is_of_user and _LOCK.search(str(lines[0])) is not None


def format_stacks() -> str:
    """Return the stacks of all threads of this process, except for the calling one."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    text = []
    for ident, frame in frames_of_threads().items():
        if ident != threading.get_ident():
            stack = "".join(traceback.format_stack(frame))
            text.append(f"Thread {names.get(ident, 'not started by Python')!s} (most recent call last):\n{stack}")
    return "\n".join(text)


def parse_stacks(text: str) -> list[list[Line]]:
    """
    Parse what `faulthandler` writes.

    Args:
        text: stacks of the threads of a process; may be incomplete.

    Returns:
        A stack for each thread, the innermost line first.
    """
    stacks: list[list[Line]] = []
    for text_line in text.splitlines():
        found = _FAULTHANDLER_LINE.match(text_line)
        if "(most recent call first)" in text_line:
            stacks.append([])
        elif found and stacks:
            path, number, function = found.groups()
            stacks[-1].append(Line(path, int(number) if number.isdigit() else 0, function))
    return [stack for stack in stacks if stack]
