"""Tests of tfutils/checkpoint_state.py: the state file of a checkpoint."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.checkpoint_state import read_state, read_state_file, write_state
from tensorpack_lite.utils.packed_state import pack_state

STATE = {
    "place": {"epoch_num": 3, "names": ["a", "ä"]},
    "callbacks": {"x": {"best": float("-inf"), "last": None}},
}
ARRAYS = {
    "callbacks": {
        "x": {
            "generator": ["MT19937", np.arange(624, dtype=np.uint32), 3, 0, 0.5],
            "mean": np.float64([[1.5, -np.inf]]),
            "number": np.array(7, np.int8),
            "empty": np.zeros([0, 2], bool),
            "text": np.array(["a", "\xe4"]),
            "pairs": np.array([(1, 2.0)], [("a", "<i4"), ("b", ">f8")]),
        }
    }
}
FORMAT_1 = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "states", "format1.state")


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "model-1.state")
    write_state(path, STATE)
    return path


def read_or_reason(path):
    """Return the state, or the message of the ValueError."""
    try:
        return read_state(path)
    except ValueError as error:
        return str(error)


def write_record(path, record):
    """Write a state file with the given content."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state.json", json.dumps(record))


def test_what_is_written_is_read(path):
    """Reading returns the state that was written, with the keys in the same order."""
    assert STATE == read_state(path)
    assert list(STATE) == list(read_state(path))


def test_equal_states_are_equal_files(path, tmp_path):
    """Two files of the same state have the same bytes, whenever they were written."""
    again = tmp_path / "again.state"
    write_state(str(again), STATE)
    with open(path, "rb") as file:
        assert again.read_bytes() == file.read()


def test_no_file(tmp_path):
    """Reading a missing state file returns None."""
    assert read_state(str(tmp_path / "model-1.state")) is None


def test_a_newer_format(path):
    """A file of a newer format raises a ValueError that names the version that wrote it."""
    write_record(path, {"format": 3, "version": "9.5", "state": {}})
    with pytest.raises(ValueError, match=r"model-1.state' has format 3 .* Version 9.5 of tensorpack_lite wrote it"):
        read_state(path)


@pytest.mark.parametrize(
    "content",
    ["[]", '{"format": "1", "state": {}}', '{"state": {}}', '{"format": 1, "state": []}', "[" * 10**6],
    ids=["list", "text as format", "no format", "list as state", "deep"],
)
def test_another_record(path, content):
    """A file with other content, also with extremely deep lists, raises a DamagedFileError."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state.json", content)
    with pytest.raises(ValueError, match="model-1.state cannot be read as the state of a checkpoint"):
        read_state(path)


def test_a_bomb(path, monkeypatch):
    """A small file that decompresses beyond the limit raises a DamagedFileError, and is not decompressed any further."""
    monkeypatch.setattr("tensorpack_lite.utils.packed_state.MAX_STATE_BYTES", 10**5)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("state.json", " " * 10**6)
    with pytest.raises(ValueError, match="cannot be read as .*: it is larger than 100000 bytes when"):
        read_state(path)


@pytest.mark.parametrize("state", [STATE, ARRAYS], ids=["no arrays", "arrays"])
def test_mutations(path, state):
    """Changing, removing or adding a byte gives the same state or a DamagedFileError, never another error."""
    good = same = pack_state(state, "")
    numbers = random.Random(7)
    num_damaged = 0
    for _ in range(200):
        bad = bytearray(good)
        place = numbers.randrange(len(bad))
        kind = numbers.randrange(4)
        if kind == 0:
            bad[place] ^= 1 << numbers.randrange(8)
        elif kind == 1:
            bad[place : place + numbers.randrange(1, 9)] = b""
        elif kind == 2:
            bad[place:place] = bytes(numbers.randrange(256) for _ in range(4))
        else:
            del bad[place:]
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(bytes(bad))
        found = read_or_reason(path)
        is_same = not isinstance(found, str) and pack_state(found, "") == same
        assert is_same or "model-1.state cannot be read as" in found
        num_damaged += not is_same
    assert num_damaged > 120


def test_members_that_are_not_the_states(path):
    """Additional members of the archive are ignored."""
    with open(path, "rb") as file:
        content = io.BytesIO(file.read())
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("0.npy", b"later")
    with open(path, "wb") as file:
        file.write(content.getvalue())
    assert STATE == read_state(path)


def test_arrays(path):
    """Arrays keep their values, shapes and dtypes, and can be changed."""
    write_state(path, ARRAYS)
    found = read_state(path)["callbacks"]["x"]
    for key, expected in {**ARRAYS["callbacks"]["x"], "generator": None}.items():
        if expected is not None:
            assert (expected.shape, expected.dtype) == (found[key].shape, found[key].dtype), key
            assert expected.tobytes() == found[key].tobytes(), key
            assert found[key].flags.writeable
    np.random.RandomState().set_state(tuple(found["generator"]))
    assert ARRAYS["callbacks"]["x"]["generator"][1].tolist() == found["generator"][1].tolist()


def test_equal_arrays_are_equal_files():
    """The layout of an array in memory does not change the file."""
    array = np.arange(6).reshape(2, 3)
    assert pack_state({"a": array}, "") == pack_state({"a": np.asfortranarray(array)}, "")


def test_a_packed_state_is_a_copy(path):
    """A packed state does not change if the arrays and lists that it was made of change."""
    state = {"a": np.zeros(2), "b": [1]}
    packed = pack_state(state, path)
    state["a"][:] = 1
    state["b"].append(2)
    write_state(path, packed)
    assert ([0.0, 0.0], [1]) == (read_state(path)["a"].tolist(), read_state(path)["b"])


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({1, 2}, TypeError, r"cannot be written as JSON: .*set.* Return only None, .* from state_dict\(\)"),
        (np.ma.masked_array([1], [True]), TypeError, "cannot be written as JSON.*Return only None, .* arrays"),
        (np.int64(1), TypeError, "cannot be written as JSON.*Return only None, .* arrays"),
        (np.array([{}]), TypeError, r"has an array of Python objects \(dtype object\)"),
        (np.zeros(2, tf.bfloat16.as_numpy_dtype), TypeError, "has an array of dtype bfloat16, which is not a"),
        ({"$array": 0}, ValueError, r"a dict with the key '\$array', which is reserved"),
    ],
    ids=["set", "masked", "scalar", "objects", "bfloat16", "reserved"],
)  # fmt: skip
def test_what_cannot_be_written(path, value, error, message):
    """Other objects, and arrays that NumPy cannot read back, raise an error with the file's name. The old file stays."""
    with pytest.raises(error, match=f"model-1.state' .*{message}"):
        write_state(path, {"a": value})
    assert STATE == read_state(path)


def test_too_many_arrays(path, monkeypatch):
    """The limit holds for the JSON and all arrays together, when a file is written and when it is read."""
    state = {"a": np.zeros(500), "b": np.zeros(500)}
    write_state(path, state)
    monkeypatch.setattr("tensorpack_lite.utils.packed_state.MAX_STATE_BYTES", 8000)
    with pytest.raises(ValueError, match=r"model-1.state' has 8\d\d\d bytes \(expected at most 8000\)"):
        write_state(path, state)
    with pytest.raises(ValueError, match="cannot be read as .*: it is larger than 8000 bytes when it is unpacked"):
        read_state(path)


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (None, "no item named '0.npy'"),
        (b"text", "reading magic string"),
        (b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,), }".ljust(118),
         "the size of an array is not the one in its header"),
        (b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(118) + b"12345678",
         "Object arrays cannot be loaded"),
    ],
    ids=["missing", "not npy", "huge", "pickle"],
)  # fmt: skip
def test_a_damaged_array(path, member, reason):
    """A missing, damaged or pickled array raises a DamagedFileError; memory for it is not allocated."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state.json", '{"format": 2, "state": {"a": {"$array": 0}}}')
        if member is not None:
            archive.writestr("0.npy", member)
    with pytest.raises(ValueError, match=f"model-1.state cannot be read as the state of a checkpoint: .*{reason}"):
        read_state(path)


def test_a_file_of_format_1():
    """A file that version 0.1.0 wrote is read, now and in later versions."""
    file = read_state_file(FORMAT_1)
    assert (1, "0.1.0", os.path.getsize(FORMAT_1)) == (file.format, file.version, file.num_bytes)
    assert ["place", "callbacks"] == list(file.state)
    place = file.state["place"]
    assert (2, 1, 4, "trigger_step", 3) == tuple(
        place[key] for key in ("epoch_num", "num_steps", "global_step", "phase", "num_called")
    )
    assert {"count": 1, "best": None, "values": [0.5, float("inf"), "\xe4"]} == file.state["callbacks"][
        "CountTriggers#2"
    ]


def test_format_1_has_no_references(path):
    """In a file of format 1, a dict with the key of references is an ordinary dict."""
    write_record(path, {"format": 1, "state": {"a": {"$array": 0}}})
    assert {"a": {"$array": 0}} == read_state(path)
