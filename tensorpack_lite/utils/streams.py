"""Standard streams of a process that was started without them, such as a daemon, or a script after `2>&-`."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import IO, Any, Iterator


def is_terminal(stream: IO[Any] | None) -> bool:
    """Return whether a stream is a terminal; `sys.stdout` and `sys.stderr` may be None, which is not."""
    return stream is not None and stream.isatty()


def fill_descriptors() -> None:
    """
    Open the null device for each of the file descriptors 0, 1 and 2 that is closed.

    Otherwise the next file that the process opens would get that number, and the messages of C libraries would be written
    into it, whether it is a log or a checkpoint.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(number, True)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Context in which `sys.stdout` and `sys.stderr` are files. What is written to a missing one is lost."""
    fill_descriptors()
    with ExitStack() as stack:
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if stream is None:
                nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
                stack.enter_context(redirect(nowhere))  # type: ignore[operator]
        yield


def write_to_stderr(text: str) -> None:
    """Write and flush a text, after what `sys.stdout` still has to write. Without `sys.stderr`, it is lost."""
    with standard_streams():
        sys.stdout.flush()
        sys.stderr.write(text)
        sys.stderr.flush()
