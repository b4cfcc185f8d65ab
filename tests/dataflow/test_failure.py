"""How the errors of workers are shown."""

from __future__ import annotations

import errno

import pytest

from tensorpack_lite.dataflow.base import DataFlowTerminated
from tensorpack_lite.dataflow.failure import stage_error

WHERE = "Stage: failed in worker 0 of 2 (pid 42)"


class NeedsTwo(Exception):
    """Cannot be made from a text."""

    def __init__(self, one, two):
        super().__init__(one, two)


class Refuses(Exception):
    """Can be made, but not from any text."""

    def __init__(self, text):
        super().__init__(text)
        self.number = int(text)


class Mute(Exception):
    """Has no text."""

    def __str__(self):
        raise RuntimeError("no text")


class Fixed(Exception):
    """Shows a text of its own, whatever it is made of."""

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
    """The stage comes first, then what the error says; the original is the cause."""
    named = stage_error(error, WHERE)
    assert type(error) is type(named)
    assert (f"{WHERE}: {text}",) == named.args
    assert error is named.__cause__


@pytest.mark.parametrize("filename", [None, "data.bin"])
def test_errors_of_the_system_keep_their_number(filename):
    """Scripts look at `errno`."""
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
def test_what_cannot_be_raised_again_as_it_is(error):
    """A RuntimeError that names the type; so nobody takes it for the end of the data or of the program."""
    named = stage_error(error, WHERE)
    assert RuntimeError is type(named)
    assert str(named).startswith(f"{WHERE}: {type(error).__name__}: ")
    assert error is named.__cause__


def test_the_end_of_the_data_is_no_error():
    """It comes back as it is."""
    end = DataFlowTerminated()
    assert end is stage_error(end, WHERE)
