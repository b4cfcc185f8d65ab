"""The checksum by which a resumed training notices that its data differs."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from tensorpack_lite.dataflow.exact.stage_position import add_to_checksum


def test_what_counts():
    """The elements of arrays, and numbers and strings, change the checksum."""
    points = [[np.arange(3), "a"], [np.arange(3), "b"], [np.arange(1, 4), "a"], {"x": np.arange(3), "y": 1}]
    assert 4 == len({add_to_checksum(0, point) for point in points})
    assert add_to_checksum(0, points[0]) == add_to_checksum(0, tuple(points[0]))


def test_an_array_that_is_not_contiguous():
    """Such an array has the same checksum as its copy."""
    array = np.arange(600).reshape(20, 30).T
    assert add_to_checksum(0, [array.copy()]) == add_to_checksum(0, [array])


def test_objects_of_users():
    """Of an object of another class, only the name of the class counts. Nothing of it is called."""

    class Hostile(str):
        def __repr__(self):
            raise RuntimeError("called")

    class Color(IntEnum):
        RED = 1

    assert add_to_checksum(0, [Hostile("a")]) == add_to_checksum(0, [Hostile("b")])
    assert add_to_checksum(0, [Color.RED]) != add_to_checksum(0, [Hostile("b")])
