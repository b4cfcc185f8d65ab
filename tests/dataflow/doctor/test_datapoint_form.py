"""What datapoints are made of."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.doctor.datapoint_form import Forms, digest


def forms(*datapoints):
    """Having looked at some."""
    found = Forms()
    for datapoint in datapoints:
        found.add(datapoint)
    return found


class TestForms:
    def test_the_same(self):
        """Arrays, numbers and texts; nothing changes."""
        found = forms([np.zeros((2, 3), "uint8"), 1, "a"], [np.ones((2, 3), "uint8"), 2, "bcd"])
        assert [] == found.changes() + found.shape_changes()
        assert "0: uint8 of 2 dimensions (2, 3), 1: int, 2: str" == found.describe()
        assert 2 == found.count

    @pytest.mark.parametrize(
        ("second", "text"),
        [
            (
                [np.zeros(3, "float64"), 1],
                "component 0 is float32 of 1 dimensions (from datapoint 0), then float64",
            ),
            ([np.zeros((3, 1), "float32"), 1], "then float32 of 2 dimensions (from datapoint 1)"),
            (
                [np.zeros(3, "float32"), 1.0],
                "component 1 is int (from datapoint 0), then float (from datapoint 1)",
            ),
            ([np.zeros(3, "float32"), np.int64(1)], "component 1 is int (from datapoint 0), then int64"),
            (
                [np.zeros(3, "float32")],
                "a datapoint is a list of 2 components (from datapoint 0), then a list of 1",
            ),
            ((np.zeros(3, "float32"), 1), "then a tuple of 2 components (from datapoint 1)"),
            ({"a": 1}, "then a dict of ['a'] (from datapoint 1)"),
            (3, "then a int and no list (from datapoint 1)"),
        ],
    )
    def test_what_changes(self, second, text):
        """In which datapoint, and into what."""
        assert text in "; ".join(forms([np.zeros(3, "float32"), 1], second).changes())

    def test_shapes(self):
        """Are told apart from the other changes; three are shown."""
        found = forms(*([np.zeros(n)] for n in (5, 6, 5, 7, 8)))
        assert [] == found.changes()
        (text,) = found.shape_changes()
        assert text.startswith(
            "component 0 has 4 shapes: it is (5,) (from datapoint 0), then (6,) (from datapoint 1)"
        )
        assert "(8,)" not in text


class TestDigest:
    def test_equal_content(self):
        """Has one name, whatever the memory layout."""
        array = np.arange(6).reshape(2, 3)
        assert digest([array, 1, "a"]) == digest([np.asfortranarray(array), 1, "a"])
        assert digest({"a": 1, "b": None}) == digest({"b": None, "a": 1})

    @pytest.mark.parametrize(
        "other",
        [
            [1, 2],
            [2, 1, 0],
            [[1, 2], 0],
            [1, 2, "0"],
            [1, 2, 0.0],
            {"0": 1},
            [np.zeros(3)],
            [1, 2, np.int32(0)],
        ],
        ids=str,
    )
    def test_another_content(self, other):
        """Has another name."""
        assert digest([1, 2, 0]) != digest(other)

    def test_dtype_and_shape_count(self):
        """Not only the bytes."""
        zeros = np.zeros(4, "int32")
        assert 3 == len({digest([a]) for a in (zeros, zeros.view("float32"), zeros.reshape(2, 2))})

    def test_objects_that_cannot_be_pickled(self):
        """Do not stop it."""
        assert digest([lambda: 1]) == digest([lambda: 2])
