"""Pickles of plain data, read without running anything in them; the hostile ones are in dataset/test_array_pickle.py."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

from tensorpack_lite.utils.plain_pickle import check_plain, load_plain

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
    """Through a pickle."""
    return load_plain(io.BytesIO(pickle.dumps(value, protocol)))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_plain_data_comes_back(value, protocol):
    """By every protocol, and it is new."""
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
    """It is data; a bytearray of a size is not."""
    assert bytearray(b"abc") == load(bytearray(b"abc"), protocol)


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_what_can_be_read_passes_the_check(value):
    """Nothing is refused at saving that could be read."""
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
    """The type that is in the way is named."""
    with pytest.raises(TypeError, match=text):
        check_plain(value)
