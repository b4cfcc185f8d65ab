"""Pickles of plain data. Hostile pickles are in dataset/test_array_pickle.py."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from tensorpack_lite.utils.plain_pickle import check_pickle_sizes, check_plain, load_plain

OBJECTS = np.empty(2, dtype=object)
OBJECTS[0], OBJECTS[1] = [1, np.arange(3)], {"a": np.float32(2)}
PLAIN = [
    None,
    [1, 2.5, 3j, "text", b"bytes", True],
    (1, {"a": [2]}, {3, 4}, frozenset([5])),
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(["ab", "c"]),
    np.array([1, 2], ">i4"),
    np.float64(3.5),
    np.bool_(True),
    OBJECTS,
]


def load(value, protocol=4):
    """Write and read a value."""
    return load_plain(io.BytesIO(pickle.dumps(value, protocol)))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_plain_data_comes_back(value, protocol):
    """Plain data is read from every protocol, as new objects."""
    loaded = load(value, protocol)
    assert type(value) is type(loaded)
    # NumPy does not compare arrays inside arrays
    objects = isinstance(value, np.ndarray) and value.dtype == object
    np.testing.assert_equal(loaded.tolist() if objects else loaded, value.tolist() if objects else value)
    if isinstance(value, np.ndarray):
        assert (value.dtype, value.shape) == (loaded.dtype, loaded.shape)
        assert loaded.flags.writeable


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_bytearray_of_bytes(protocol):
    """A bytearray of bytes is read, one of a size is not."""
    assert bytearray(b"abc") == load(bytearray(b"abc"), protocol)


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_what_can_be_read_passes_the_check(value):
    """Values that can be read pass the check."""
    check_plain(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), "got object"),
        ([{"a": (lambda: 1)}], "got function"),
        (np.zeros(2, [("a", "i4")]), "got an array of"),
        (np.array([object()]), "got object"),
    ],
)
def test_what_cannot_be_read_does_not(value, text):
    """Other values raise a TypeError that names the type."""
    with pytest.raises(TypeError, match=text):
        check_plain(value)


class TestSizes:
    @pytest.mark.parametrize(
        ("packed", "match"),
        [
            (b"\x80\x02Nr\xff\xff\xff\x07.", "at index 134217727 of its memo after only 4 bytes"),
            (b"Np268435455\n.", "at index 268435455 of its memo after only 2 bytes"),
            (b"\x80\x04\x8e\xff\xff\xff\xff\xff\x00\x00\x00.", "is cut off"),
            (b"\x80\x05\x96\xff\xff\xff\xff\x07\x00\x00\x00.", "is cut off|byte 2 .* not an opcode"),
            (b"\x80\x02X\xff\xff\xff\x7f.", "is cut off"),
            (b"\x80\x02T\xff\xff\xff\xff.", "is cut off"),
            (b"\x80\x02\x8a", "is cut off"),
            (b"\x80\x02I12", "is cut off"),
            (b"\x80\x02N", "is cut off"),
            (b"", "is cut off"),
            (b"\x80\x02\xff.", "byte 2 of the pickle is 255, which is not an opcode"),
        ],
    )
    def test_a_bomb_is_refused_before_it_is_unpickled(self, packed, match):
        """A few bytes that claim gigabytes raise a ValueError."""
        with pytest.raises(ValueError, match=match):
            load_plain(io.BytesIO(packed))

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_every_honest_pickle_passes(self, protocol):
        """Long strings, large numbers, deep lists, classes and objects pass the check."""
        values = [
            *PLAIN,
            "x" * 70000,
            b"y" * 300,
            1 << 2000,
            -(1 << 70),
            [[[]]] * 300,
            list(range(3000)),
            int,
            Exception("e"),
        ]
        check_pickle_sizes(pickle.dumps(values, protocol))

    def test_what_follows_the_pickle_is_not_read(self):
        """Bytes after the pickle are ignored."""
        assert [1] == load_plain(io.BytesIO(pickle.dumps([1]) + b"\xff"))


def test_shared_objects_stay_shared():
    """Forty nested lists that hold the same list twice do not become 2^40 lists."""
    value: list = []
    for _ in range(40):
        value = [value, value]
    loaded = load(value)
    assert loaded[0] is loaded[1]


def test_an_ordered_dict():
    """An OrderedDict becomes a dict in the same order."""
    value = OrderedDict([("b", np.arange(2)), ("a", 1)])
    loaded = load(value)
    assert (dict, ["b", "a"]) == (type(loaded), list(loaded))
