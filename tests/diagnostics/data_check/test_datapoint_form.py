"""Tests for the forms and digests of datapoints."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.diagnostics.data_check.datapoint_form import Forms, digest


def forms(*datapoints):
    """Return the forms of some datapoints."""
    found = Forms()
    for datapoint in datapoints:
        found.add(datapoint)
    return found


class TestForms:
    def test_datapoints_of_one_form(self):
        """Datapoints of one form have no changes, and their components are described."""
        found = forms([np.zeros((2, 3), "uint8"), 1, "a"], [np.ones((2, 3), "uint8"), 2, "bcd"])
        assert [] == found.changes() + found.shape_changes()
        assert "0: 2-dimensional uint8 (2, 3), 1: int, 2: str" == found.describe()
        assert 2 == found.count

    @pytest.mark.parametrize(
        ("second", "text"),
        [
            (
                [np.zeros(3, "float64"), 1],
                "component 0 is 1-dimensional float32 (from datapoint 0), then 1-dimensional float64",
            ),
            ([np.zeros((3, 1), "float32"), 1], "then 2-dimensional float32 (from datapoint 1)"),
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
            (3, "then a int instead of a list (from datapoint 1)"),
        ],
    )
    def test_changes(self, second, text):
        """A sentence names the change and the datapoint in which it occurs."""
        assert text in "; ".join(forms([np.zeros(3, "float32"), 1], second).changes())

    def test_shapes(self):
        """Changes of shape are separate from other changes, and the first three shapes are shown."""
        found = forms(*([np.zeros(n)] for n in (5, 6, 5, 7, 8)))
        assert [] == found.changes()
        (text,) = found.shape_changes()
        assert text.startswith("component 0 has 4 shapes: it is (5,) (from datapoint 0), then (6,) (from datapoint 1)")
        assert "(8,)" not in text


class TestDigest:
    def test_equal_content(self):
        """Equal content has an equal digest, whatever the memory layout and the order of keys."""
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
    def test_different_content(self, other):
        """Different content has a different digest."""
        assert digest([1, 2, 0]) != digest(other)

    def test_dtype_and_shape_count(self):
        """Arrays of equal bytes but another dtype or shape have different digests."""
        zeros = np.zeros(4, "int32")
        assert 3 == len({digest([a]) for a in (zeros, zeros.view("float32"), zeros.reshape(2, 2))})

    def test_objects_that_cannot_be_pickled(self):
        """Objects that cannot be pickled are told apart only by their type."""
        assert digest([lambda: 1]) == digest([lambda: 2])
