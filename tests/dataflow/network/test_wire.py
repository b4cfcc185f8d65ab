"""Tests for the message format, in particular for bytes that no sender would send."""

from __future__ import annotations

import collections
import os
import pickle
import sys
import time
import tracemalloc

import msgpack
import numpy as np
import pytest

from tensorpack_lite.dataflow.network.wire import (
    MAX_FRAME_BYTES,
    MAX_VALUES,
    VERSION,
    VersionError,
    WireError,
    decode,
    encode_datapoint,
    encode_error,
    encode_greeting,
    encode_pickle,
)

HEAD = b"TPL" + bytes([VERSION])


def travel(datapoint):
    """Encode and decode a datapoint through writable buffers, like those of zmq frames."""
    return decode([bytearray(frame) for frame in encode_datapoint("me", datapoint)]).content


def data(obj, *frames) -> list:
    """Return a message of kind D whose msgpack is given as an object or as bytes."""
    body = obj if isinstance(obj, bytes) else msgpack.packb(["me", obj], use_bin_type=True)
    return [HEAD + b"D" + body, *frames]


def array(*parts) -> msgpack.ExtType:
    """Return the description of an array, as a stranger may write it."""
    return msgpack.ExtType(1, msgpack.packb(parts, use_bin_type=True))


ARRAYS = [
    np.array(3.5), np.zeros(0, np.int16), np.zeros((3, 0, 2)), np.array(True), np.arange(6).reshape(2, 3),
    np.array(["a", "bcd"]), np.array([b"x", b"yz"]), np.array([1 + 2j]), np.arange(3, dtype=">u2"),
    np.arange(4).astype("M8[ms]"), np.ones(3, [("a", "<f4"), ("b", "<i2", (2,))]),
    np.ones(3, [("a", "<f4"), ("b", [("c", "u1")])]),
]  # fmt: skip


class TestRoundTrip:
    @pytest.mark.parametrize("value", ARRAYS, ids=lambda a: f"{a.dtype} {a.shape}")
    @pytest.mark.parametrize("times", [1, 3000])
    def test_arrays(self, value, times):
        """Arrays of any dtype without objects arrive and are writable, inside the first frame or in a separate one."""
        value = np.concatenate([value.reshape(-1)] * times) if times > 1 else value
        (found,) = travel([value])
        assert (value.dtype, value.shape) == (found.dtype, found.shape)
        np.testing.assert_array_equal(value, found)
        assert found.flags.writeable

    @pytest.mark.parametrize("order", ["strided", "fortran", "reversed"])
    def test_any_order_in_memory(self, order):
        """An array of any memory order arrives in C order with the same values."""
        value = np.arange(20000.0).reshape(100, 200)
        value = {"strided": value[::2, ::3], "fortran": np.asfortranarray(value), "reversed": value[::-1]}[order]
        np.testing.assert_array_equal(value, travel([value])[0])

    def test_a_large_array_is_not_copied(self):
        """The frame is a view of the array, and the decoded array is a view of the frame."""
        value = np.zeros(10000, np.uint8)
        frames = encode_datapoint("me", [value])
        assert np.shares_memory(value, np.frombuffer(frames[1], np.uint8))
        buffer = bytearray(frames[1])
        assert np.shares_memory(decode([frames[0], buffer]).content[0], np.frombuffer(buffer, np.uint8))

    def test_an_unaligned_array_is_copied(self):
        """An array in an unaligned frame is copied, because TensorFlow needs aligned arrays."""
        frames = encode_datapoint("me", [np.arange(1000.0)])
        askew = memoryview(bytearray(b"x" + bytes(frames[1])))[1:]
        (found,) = decode([frames[0], askew]).content
        assert found.flags.aligned
        np.testing.assert_array_equal(np.arange(1000.0), found)

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (None, None), (True, True), (-5, -5), (1.5, 1.5), (2 - 1j, 2 - 1j), ("é", "é"), (b"\x00\xff", b"\x00\xff"),
            (b"x" * 10000, b"x" * 10000), ((1, (2, 3)), [1, [2, 3]]), ({"a": [1], 3: {}}, {"a": [1], 3: {}}),
            (collections.OrderedDict(b=1), {"b": 1}), (np.float32(2.5), np.float32(2.5)), (np.str_("a"), "a"),
            (np.bool_(True), np.bool_(True)), (np.float64(0.1), np.float64(0.1)),
        ],
    )  # fmt: skip
    def test_other_components(self, value, expected):
        """Other components arrive with the types of msgpack, so tuples become lists."""
        (found,) = travel((value,))
        assert expected == found
        assert type(expected) is type(found)

    def test_dicts(self):
        """A datapoint may be a dict, whose large bytes are in separate frames."""
        found = travel({"image": np.ones(5000), "jpeg": b"j" * 5000, "label": 3})
        assert ["image", "jpeg", "label"] == list(found)
        np.testing.assert_array_equal(np.ones(5000), found["image"])
        assert (b"j" * 5000, 3) == (found["jpeg"], found["label"])

    def test_long_lists(self):
        """A list may have 16,384 values."""
        assert [list(range(MAX_VALUES))] == travel([list(range(MAX_VALUES))])

    @pytest.mark.parametrize("size", [MAX_FRAME_BYTES, MAX_FRAME_BYTES + 8, 3 * MAX_FRAME_BYTES - 8])
    @pytest.mark.parametrize("kind", ["array", "bytes", "pickle"])
    def test_values_larger_than_a_frame(self, kind, size):
        """Large arrays, bytes and pickles are split into frames of 1 MB and joined again."""
        value = np.random.RandomState(0).bytes(size)
        component = np.frombuffer(value, np.float64) if kind == "array" else value
        frames = (encode_pickle if kind == "pickle" else encode_datapoint)("me", [component, 3])
        assert max(len(frame) for frame in frames) <= MAX_FRAME_BYTES
        found, number = decode([bytearray(frame) for frame in frames], kind == "pickle").content
        assert (value, 3) == (bytes(found), number)
        assert kind != "array" or (found.flags.writeable and found.flags.aligned)

    def test_a_greeting(self):
        """A greeting holds only the name of the sender."""
        assert ("H", "me", None) == decode(encode_greeting("me"))

    def test_errors(self):
        """An error holds five texts, from which control characters are removed."""
        message = decode(encode_error("me", "MapData", ValueError("wrong \x1b[2J é"), "line 1\n\tline 2"))
        assert ("E", "me") == message[:2]
        assert ["MapData", "ValueError", "wrong ?[2J é", "line 1\n\tline 2"] == message.content

    def test_pickle_if_it_is_allowed(self):
        """With allow_pickle, any object arrives."""
        assert {1, 2} == decode(encode_pickle("me", [{1, 2}]), allow_pickle=True).content[0]


class TestSender:
    @pytest.mark.parametrize(
        ("component", "message"),
        [
            (
                {1, 2},
                r"a datapoint holds set \{1, 2\}. Send numbers, .* or use format='pickle' on both sides",
            ),
            (np.array([None]), "a datapoint holds a NumPy array of Python objects"),
            (10**30, "cannot be sent: Integer value out of range"),
        ],
    )
    def test_unsupported_components(self, component, message):
        """A component that cannot be sent is a TypeError that lists the supported types."""
        with pytest.raises(TypeError, match=message):
            encode_datapoint("me", [component])

    def test_a_datapoint_is_a_list_or_a_dict(self):
        """A datapoint that is neither a list nor a dict is a TypeError."""
        with pytest.raises(TypeError, match=r"a datapoint is ndarray \(expected a list or a dict"):
            encode_datapoint("me", np.zeros(3))

    @pytest.mark.parametrize(
        ("component", "message"),
        [
            ([1.5] * 500000, r"too much outside of arrays \(expected at most 1048571 bytes, got"),
            ([1] * (MAX_VALUES + 1), r"too many values: .* \(expected at most 16384 in a list"),
            (dict.fromkeys(range(2000)), r"too many values: .* 1024 in a dict"),
            ([[np.float32(1)] * 10000] * 2, r"too many values: .* and 16384 arrays and NumPy scalars in all"),
        ],
        ids=["bytes", "list", "dict", "scalars"],
    )
    def test_too_much_outside_of_arrays(self, component, message):
        """The sender refuses datapoints that the receiver would refuse, with advice."""
        with pytest.raises(ValueError, match=f"{message}.*Convert its long lists to arrays"):
            encode_datapoint("me", [component])


MALFORMED = {
    "empty": [b""],
    "noise": [b"\x93NUMPY hello"],
    "pickle of tensorpack": [pickle.dumps([1, 2])],
    "cut head": [HEAD],
    "unknown kind": [HEAD + b"Z"],
    "no body": data(b""),
    "cut msgpack": data(msgpack.packb(["me", [1, 2, 3]])[:-1]),
    "trailing bytes": data(msgpack.packb(["me", [1]]) + b"x"),
    "not a pair": data(msgpack.packb([1, 2, 3])),
    "a number": data(msgpack.packb(5)),
    "sender is a number": data(msgpack.packb([5, [1]])),
    "datapoint is a text": data("text"),
    "bad utf-8": data(b"\x92\xa2me\x91\xa2\xff\xfe"),
    "unhashable key": data(b"\x92\xa2me\x81\x91\x01\x01"),
    "unknown extension": data([msgpack.ExtType(77, b"")]),
    "extension too large": data([msgpack.ExtType(2, b"x" * 20000)]),
    "complex too short": data([msgpack.ExtType(3, b"x")]),
    "frame without reference": data([1], b"x"),
    "reference without frame": data([array("<f8", [1], [1, 1])]),
    "one frame, two references": data([array("|u1", [1], [1, 1]), array("|u1", [1], [1, 1])], b"x"),
    "reference to the first frame": data([array("|u1", [1], [0, 1])]),
    "negative reference": data([array("|u1", [1], [-1, 1])], b"x"),
    "reference that is a bool": data([array("|u1", [1], [False, 1])]),
    "too few bytes": data([array("<f8", [100], [1, 1])], b"x" * 8),
    "too many bytes": data([array("<f8", [1], [1, 1])], b"x" * 16),
    "odd bytes": data([array("<f8", [1], [1, 1])], b"x" * 9),
    "reference that is not a pair": data([array("|u1", [1], [1])], b"x"),
    "reference to more frames than came": data([array("|u1", [1], [1, 2])], b"x"),
    "reference to no frame": data([array("|u1", [0], [1, 0])], b"x"),
    "reference to a huge number of frames": data([array("|u1", [1], [1, 2**62])], b"x"),
    "overlapping references": data([array("|u1", [2], [1, 2]), array("|u1", [1], [2, 1])], b"x", b"x"),
    "shape -1": data([array("|u1", [-1], [1, 1])], b"x" * 8),
    "shape of texts": data([array("|u1", ["a"], [1, 1])], b"x"),
    "shape overflows": data([array("|u1", [2**62, 2**62], [1, 1])], b"x"),
    "shape of 100 axes": data([array("|u1", [1] * 100, [1, 1])], b"x"),
    "objects": data([array("|O", [1], [1, 1])], b"x" * 8),
    "objects in a field": data([array([["a", "|O"]], [1], [1, 1])], b"x" * 8),
    "objects by name": data([array("object", [1], [1, 1])], b"x" * 8),
    "dtype of a name": data([array("os.system", [1], [1, 1])], b"x" * 8),
    "dtype of nothing": data([array(None, [1], [1, 1])], b"x" * 8),
    "dtype without bytes": data([array("|S0", [10**15], [1, 1])], b"x"),
    "dtype of a huge item": data([array("|V999999999999999", [1], [1, 1])], b"x"),
    "array without parts": data([msgpack.ExtType(1, msgpack.packb([]))]),
    "scalar too short": data([msgpack.ExtType(2, msgpack.packb(["<f8", b"x"], use_bin_type=True))]),
    "error with two texts": [HEAD + b"E" + msgpack.packb(["me", "a", "b"])],
    "error of numbers": [HEAD + b"E" + msgpack.packb(["me", 1, 2, 3, 4])],
    "pickle without bytes": [HEAD + b"P" + msgpack.packb(["me"])],
    "pickle without frames": [HEAD + b"P" + msgpack.packb(["me", 1, 1])],
    "greeting with content": [HEAD + b"H" + msgpack.packb(["me", 1])],
    "greeting with frames": [HEAD + b"H" + msgpack.packb(["me"]), b"x"],
    "kind of two letters": [HEAD + b"\xc4"],
    "many nils": data(b"\x92\xa2me\xdd\x00\x0f\x00\x00" + b"\xc0" * 0xF0000),
    "a dict said to be long": data(b"\x92\xa2me\xdf\xff\xff\xff\xff"),
    "many small arrays": data([array("|u1", [], b"x")] * (MAX_VALUES + 1)),
    "deep": data(b"\x92\xa2me" + b"\x91" * 10000 + b"\x01"),
    "deep and long": data(b"\x92\xa2me" + b"\x91" * 1000000 + b"\x01"),
    "a list said to be long": data(b"\x92\xa2me\xdd\xff\xff\xff\xff"),
    "bytes said to be long": data(b"\x92\xa2me\xc6\xff\xff\xff\xff"),
    "lists said to be as long as they may be, nested": data(b"\x92\xa2me" + b"\xdc\x40\x00" * 1020),
    "lists said to be long, nested": data(b"\x92\xa2me" + b"\xdd\x00\x00\x3f\x00" * 500),
    "lists said to be longer, nested": data(b"\x92\xa2me" + b"\xdd\x00\x0f\x00\x00" * 200000),
    "first frame too large": data(b"\x00" * MAX_FRAME_BYTES),
}


class TestStrangers:
    @pytest.mark.parametrize("name", sorted(MALFORMED))
    def test_malformed(self, name):
        """Malformed bytes raise WireError and nothing else, within seconds of CPU time and with little memory."""
        frames = MALFORMED[name]
        tracemalloc.start()
        try:
            began = time.process_time()
            with pytest.raises(WireError):
                decode(frames)
            assert time.process_time() - began < 30
            assert tracemalloc.get_traced_memory()[1] < 150 << 20
        finally:
            tracemalloc.stop()

    def test_another_version(self):
        """A message of another version raises VersionError."""
        with pytest.raises(VersionError, match=r"a message of version 9 \(expected 2\)"):
            decode([b"TPL\x09D" + msgpack.packb(["me", [1]])])

    def test_pickle_is_not_loaded(self, tmp_path):
        """Unless pickle is allowed, the code in a pickle does not run."""

        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "ran"),)

        frames = encode_pickle("me", [Evil()])
        message = decode(frames)
        assert ("P", None) == (message.kind, message.content)
        assert [] == os.listdir(str(tmp_path))
        with pytest.raises(WireError):  # nor if its bytes are sent as another kind
            decode([frames[0].replace(HEAD + b"P", HEAD + b"D"), frames[1]])
        assert [] == os.listdir(str(tmp_path))

    def test_damaged_pickle(self):
        """A damaged pickle raises WireError where pickle is allowed."""
        with pytest.raises(WireError, match="a damaged message"):
            decode([HEAD + b"P" + msgpack.packb(["me", 1, 1]), b"\x80\x04junk"], allow_pickle=True)

    def test_the_recursion_limit_is_unchanged(self):
        """Deeply nested messages do not change the recursion limit."""
        limit = sys.getrecursionlimit()
        with pytest.raises(WireError):
            decode(MALFORMED["deep and long"])
        assert limit == sys.getrecursionlimit()
