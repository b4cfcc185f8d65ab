"""tfutils/checkpoint_state.py: the file of a checkpoint's state."""

from __future__ import annotations

import io
import json
import random
import zipfile

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.checkpoint_state import read_state, write_state

STATE = {
    "place": {"epoch_num": 3, "names": ["a", "ä"]},
    "callbacks": {"x": {"best": float("-inf"), "last": None}},
}


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "model-1.state")
    write_state(path, STATE)
    return path


def read_or_reason(path):
    """The state, or the message of the ValueError."""
    try:
        return read_state(path)
    except ValueError as error:
        return str(error)


def write_record(path, record):
    """Write a state file with this content."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state.json", json.dumps(record))


def test_what_is_written_is_read(path):
    """A state comes back as it was, in the order of its keys."""
    assert STATE == read_state(path)
    assert list(STATE) == list(read_state(path))


def test_equal_states_are_equal_files(path, tmp_path):
    """Two files of one state have the same bytes, whenever they were written."""
    again = tmp_path / "again.state"
    write_state(str(again), STATE)
    with open(path, "rb") as file:
        assert again.read_bytes() == file.read()


def test_no_file(tmp_path):
    """A checkpoint without a state file has no state."""
    assert read_state(str(tmp_path / "model-1.state")) is None


def test_not_json(path):
    """A state of other objects is a TypeError that says what a state may hold."""
    with pytest.raises(
        TypeError, match=r"model-1.state' cannot hold the state: .*set.* state_dict\(\) of a callback"
    ):
        write_state(path, {"callbacks": {"x": {1, 2}}})


def test_a_newer_format(path):
    """A file of a newer format is an error that names the version that wrote it."""
    write_record(path, {"format": 2, "version": "9.5", "state": {}})
    with pytest.raises(
        ValueError, match=r"model-1.state' has format 2 .* Version 9.5 of tensorpack_lite wrote it"
    ):
        read_state(path)


@pytest.mark.parametrize(
    "record", [[], {"format": "1", "state": {}}, {"state": {}}, {"format": 1, "state": []}]
)
def test_another_record(path, record):
    """A file with another content is damaged."""
    write_record(path, record)
    with pytest.raises(ValueError, match="model-1.state cannot be read as the state of a checkpoint"):
        read_state(path)


def test_a_bomb(path, monkeypatch):
    """A small file that would grow beyond the limit is damaged, and is not unpacked any further."""
    monkeypatch.setattr("tensorpack_lite.tfutils.checkpoint_state._MAX_BYTES", 10**5)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("state.json", " " * 10**6)
    with pytest.raises(ValueError, match="cannot be read as .*: state.json is larger than 100000 bytes"):
        read_state(path)


def test_deep_lists(path):
    """Lists in lists without end are a damaged file."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state.json", "[" * 10**6)
    with pytest.raises(ValueError, match="cannot be read as the state of a checkpoint"):
        read_state(path)


def test_mutations(path):
    """A file with a changed, missing or added byte is read as it was, or is damaged; there is no other error."""
    with open(path, "rb") as file:
        good = file.read()
    numbers = random.Random(7)
    num_damaged = 0
    for _ in range(500):
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
        assert found == STATE or "model-1.state cannot be read as" in found
        num_damaged += found != STATE
    assert num_damaged > 300


def test_members_that_are_not_the_states(path):
    """Other members, such as arrays of a later minor version, do no harm."""
    with open(path, "rb") as file:
        content = io.BytesIO(file.read())
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("0.npy", b"later")
    with open(path, "wb") as file:
        file.write(content.getvalue())
    assert STATE == read_state(path)
