"""Fields of protocol buffers, written by hand from the description of the format."""

from __future__ import annotations

import pytest

from tensorpack_lite.utils.protobuf import read_fields, read_integers


def test_the_kinds_of_fields():
    """Integers, eight bytes, strings and four bytes are read."""
    message = b"\x08\xac\x02" + b"\x11" + b"8" * 8 + b"\x1a\x02hi" + b"\x25" + b"4" * 4
    assert [(1, 300), (2, b"8" * 8), (3, b"hi"), (4, b"4" * 4)] == list(read_fields(message))


def test_an_empty_message():
    """An empty message has no fields."""
    assert [] == list(read_fields(b""))


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b"\x08", "the message is cut off"),
        (b"\x08\xac", "the message is cut off"),
        (b"\x1a\x03hi", "the message is cut off"),
        (b"\x11" + b"8" * 7, "the message is cut off"),
        (b"\x0b", "field 1 is of an unknown kind, 3"),
        (b"\x08" + b"\xff" * 10, "a number has more than 10 bytes"),
    ],
)
def test_what_is_no_message(message, error):
    """An invalid message raises a ValueError."""
    with pytest.raises(ValueError, match=error):
        list(read_fields(message))


@pytest.mark.parametrize(("value", "integers"), [(7, [7]), (b"\x01\xac\x02\x00", [1, 300, 0]), (b"", [])])
def test_integers(value, integers):
    """One integer or packed integers are read."""
    assert integers == read_integers(value)


def test_integers_cut_off():
    """Packed integers that are cut off raise a ValueError."""
    with pytest.raises(ValueError, match="the message is cut off"):
        read_integers(b"\x01\xac")
