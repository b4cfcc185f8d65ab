"""Tests for the encoding of datapoints as a head and arrays."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

from tensorpack_lite.dataflow.process.codec import Stacked, decode, encode, may_stay_in_place, write_arrays


def travel(datapoints, copy=True):
    """Encode and decode datapoints. Return them and the memory of their arrays."""
    encoded = encode(datapoints)
    memory = np.zeros(encoded.num_bytes, np.uint8)
    write_arrays(encoded, memory)
    return decode(encoded.head, memory, copy), memory


def same(expected, actual):
    """Assert equal values, types, dtypes, shapes and memory orders."""
    assert type(expected) is type(actual)
    if isinstance(expected, np.ndarray):
        assert (expected.dtype, expected.shape) == (actual.dtype, actual.shape)
        np.testing.assert_array_equal(expected, actual)
    elif isinstance(expected, (list, tuple)):
        assert len(expected) == len(actual)
        for a, b in zip(expected, actual):
            same(a, b)
    elif isinstance(expected, dict):
        assert list(expected) == list(actual)
        same(list(expected.values()), list(actual.values()))
    else:
        assert expected == actual


LARGE = np.arange(30000, dtype=np.float32).reshape(100, 300)
CASES = {
    "small": [[np.arange(3), k] for k in range(5)],
    "tuples": [(np.ones((2, 2), np.uint8), "a", b"b") for _ in range(3)],
    "dicts": [{"x": np.full(3, k), "y": np.float64(k)} for k in range(4)],
    "numpy scalars": [[np.zeros(1), np.uint8(k), np.bool_(k % 2)] for k in range(4)],
    "python scalars": [[np.zeros(1), k, float(k), k % 2 == 0, None, "x" * k] for k in range(4)],
    "mixed scalars": [[np.zeros(1), np.uint8(1)], [np.zeros(1), 2]],
    "no array": [[k, str(k)] for k in range(4)],
    "shapes differ": [[np.zeros(k)] for k in range(4)],
    "dtypes differ": [[np.zeros(1)], [np.zeros(1, np.int8)]],
    "forms differ": [[np.zeros(1)], (np.zeros(1),)],
    "lengths differ": [[np.zeros(1)], [np.zeros(1), 1]],
    "keys differ": [{"a": np.zeros(1)}, {"b": np.zeros(1)}],
    "not a container": [np.arange(4), np.arange(4)],
    "array of rank 0": [[np.array(1.5)], [np.array(2.5)]],
    "empty arrays": [[np.zeros((0, 3))], [np.zeros((0, 3))]],
    "memory orders": [[order(np.arange(6.0).reshape(2, 3))] for order in (np.copy, np.asfortranarray)],
    "strides": [[np.arange(12).reshape(2, 6)[:, ::2]], [np.arange(12).reshape(2, 6)[:, ::-2]]],
    "dates": [[np.array(["2020-01-01", "2021-01-01"], "M8[D]")] for _ in range(2)],
    "records": [[np.zeros(2, [("a", "i4"), ("b", "f8")])] for _ in range(2)],
    "strings": [[np.array(["ab", "c"])] for _ in range(2)],
    "objects": [[np.array([1, "a", None], dtype=object)] for _ in range(2)],
    "one large": [[LARGE, 3]],
    "large of all dtypes": [[LARGE.astype(t) for t in ("u1", "f2", "i8", "c16", ">f4")]],
    "large records": [[np.zeros(2000, [("a", "i4"), ("b", "f8")])]],
    "large dates": [[np.zeros(2000, "M8[s]")]],
    "large objects": [[np.array([None] * 5000)]],
    "nested": [[{"images": [LARGE, LARGE + 1], "names": ("a", "b")}]],
    "several large": [[LARGE, k] for k in range(3)],
    "empty datapoint": [[], []],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("copy", [True, False])
def test_datapoints_are_restored(name, copy):
    """Decoding restores values, types, dtypes and shapes."""
    same(CASES[name], travel(CASES[name], copy)[0])


@pytest.mark.parametrize("name", ["small", "dicts", "tuples"])
def test_small_arrays_are_copied(name):
    """Small arrays are copied: they do not change with the slot, and keeping one does not keep the others."""
    arrived, memory = travel(CASES[name], copy=False)
    memory[:] = 255
    same(CASES[name], arrived)


class TestLarge:
    def test_a_copy(self):
        """With copy=True, the array does not change when the memory is used again."""
        (datapoint,), memory = travel([[LARGE]], copy=True)
        memory[:] = 0
        np.testing.assert_array_equal(LARGE, datapoint[0])

    def test_a_view(self):
        """With copy=False, the array is a view of the memory and can be written to."""
        (datapoint,), memory = travel([[LARGE]], copy=False)
        assert np.shares_memory(datapoint[0], memory)
        datapoint[0][0, 0] = -1
        assert -1 == memory[:4].view(np.float32)[0]

    def test_memory_orders(self):
        """Fortran order is kept; a strided array becomes contiguous, as with pickle."""
        arrived = travel([[np.asfortranarray(LARGE), LARGE[::2, ::3]]])[0][0]
        assert arrived[0].flags.f_contiguous
        assert arrived[1].flags.c_contiguous
        np.testing.assert_array_equal(LARGE, arrived[0])
        np.testing.assert_array_equal(LARGE[::2, ::3], arrived[1])

    def test_an_array_in_two_components_is_sent_once(self):
        """An array in two components is sent once and stays one array, as with pickle."""
        encoded = encode([[LARGE, LARGE]])
        assert 1 == len(encoded.arrays)
        arrived = travel([[LARGE, LARGE]])[0][0]
        assert arrived[0] is arrived[1]

    def test_a_stack_arrives_as_one_array(self):
        """A Stacked arrives as one array, which is stacked directly in the shared memory."""
        parts = [LARGE + k for k in range(3)]
        ((array, number),), memory = travel([[Stacked(parts), 5]], copy=False)
        np.testing.assert_array_equal(np.stack(parts), array)
        assert np.shares_memory(array, memory)
        assert 5 == number

    def test_only_large_arrays_may_stay(self):
        """Only large arrays can be views; columns are copied."""
        assert may_stay_in_place(encode([[LARGE]]).head)
        assert not may_stay_in_place(encode(CASES["small"]).head)


def test_small_datapoints_are_encoded_as_columns():
    """Small datapoints of one form share one array per component, so the head stays small."""
    many = encode([[np.zeros(100), k] for k in range(64)])
    assert 1 == len(many.arrays)
    assert len(many.head) < 1000


@pytest.mark.parametrize("thing", [lambda: 1, threading.Lock()])
def test_unpicklable_components_raise(thing):
    """A component that cannot be pickled raises the error of pickle."""
    with pytest.raises((pickle.PicklingError, TypeError, AttributeError), match=r"pickle|local"):
        encode([[thing]])
