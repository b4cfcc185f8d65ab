"""Tests of the errors that consumers raise for workers."""

from __future__ import annotations

import errno

import pytest

from tensorpack_lite.dataflow.base import DataFlowTerminated
from tensorpack_lite.dataflow.failure import stage_error

WHERE = "Stage: failed in worker 0 of 2 (pid 42)"


class NeedsTwo(Exception):
    """An exception that cannot be constructed from a message."""

    def __init__(self, one, two):
        super().__init__(one, two)


class Refuses(Exception):
    """An exception that can be constructed from some messages only."""

    def __init__(self, text):
        super().__init__(text)
        self.number = int(text)


class Mute(Exception):
    """An exception without a message."""

    def __str__(self):
        raise RuntimeError("no text")


class Fixed(Exception):
    """An exception that ignores its message."""

    def __str__(self):
        return "as always"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("is 3"), "is 3"),
        (KeyError("name"), "name"),
        (IndexError(), "IndexError"),
        (NotImplementedError("later"), "later"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_type_is_kept(error, text):
    """The type is kept, the message starts with the stage, and the original is the cause."""
    named = stage_error(error, WHERE)
    assert type(error) is type(named)
    assert (f"{WHERE}: {text}",) == named.args
    assert error is named.__cause__


@pytest.mark.parametrize("filename", [None, "data.bin"])
def test_errors_of_the_system_keep_their_number(filename):
    """An OSError keeps its errno and its file name."""
    error = FileNotFoundError(errno.ENOENT, "No such file", *([filename] if filename else []))
    named = stage_error(error, WHERE)
    assert FileNotFoundError is type(named)
    assert (errno.ENOENT, f"{WHERE}: No such file", filename) == (named.errno, named.strerror, named.filename)


@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        NeedsTwo(1, 2),
        Refuses("17"),
        Mute(1),
        Mute("text"),
        Fixed("text"),
        StopIteration("end"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_that_cannot_be_rebuilt(error):
    """An exception that cannot be rebuilt, or would end a loop, becomes a RuntimeError that names its type."""
    named = stage_error(error, WHERE)
    assert RuntimeError is type(named)
    assert str(named).startswith(f"{WHERE}: {type(error).__name__}: ")
    assert error is named.__cause__


def test_dataflow_terminated():
    """DataFlowTerminated is returned unchanged."""
    end = DataFlowTerminated()
    assert end is stage_error(end, WHERE)
