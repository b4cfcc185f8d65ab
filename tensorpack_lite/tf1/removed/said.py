"""The lines in the log that name what a script uses and its libraries have removed."""

from __future__ import annotations

import mmap
import os
import sys
import zlib
from types import FrameType

from ..startup.sitecustomize import calling_frame

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # tf1
# Forked processes share this memory, so that a name is logged once for all of them.
_SAID = mmap.mmap(-1, 1 << 16)


def say(name: str, text: str, place: str | None = None) -> None:
    """
    Log a line about a name, once.

    Args:
        name: identifies the line.
        text: the sentence.
        place: "file:line", where the name is used; by default, that of `caller`.
    """
    index = zlib.crc32(name.encode("utf-8")) % len(_SAID)
    if _SAID[index]:
        return
    _SAID[index] = 1
    place = _place_of(caller()) if place is None else place
    start = f"{place}: " if place else ""
    sys.stderr.write(f"tensorpack-lite run: {start}{text}\n")
    sys.stderr.flush()


def caller() -> FrameType | None:
    """Return the innermost frame outside `tf1` and the import system."""
    frame = calling_frame()
    while frame is not None:
        if not frame.f_code.co_filename.startswith((_FOLDER, "<frozen importlib")):
            return frame
        frame = frame.f_back
    return None


def _place_of(frame: FrameType | None) -> str:
    """Return "file:line" for a frame, with a path relative to the current directory if the file is below it."""
    if frame is None:
        return ""
    return f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def short_path(file: str) -> str:
    """Return a path relative to the current directory if the file is below it, and the path itself otherwise."""
    try:
        folder = os.getcwd() + os.sep
    except OSError:  # the directory has been deleted
        return file
    return file[len(folder) :] if file.startswith(folder) else file
