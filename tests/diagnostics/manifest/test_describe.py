"""Descriptions of objects by JSON values."""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import re
import socket
import threading
import types
from collections import deque
from enum import Enum
from unittest import mock

import numpy as np
import pytest
from fakes.processes import run_python

from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.diagnostics.manifest.describe import Describer, describe, describe_files
from tensorpack_lite.utils.plain_values import checksum


class Setting:
    """A class that keeps one argument under a private name, and one that is not an argument."""

    def __init__(self, size, rate=0.1):
        self._size, self.rate = size, rate
        self.started = threading.Lock()


class Other:
    """A class that keeps its argument under another name."""

    def __init__(self, value):
        self.kept = value
        self._hidden = 3


class Blocking:
    """A class that raises an error whenever anything of its objects is called or looked up. It might as well block."""

    def __init__(self, rate):
        self.rate = rate

    def fail(self, *_):
        raise AssertionError("called")

    __getattribute__ = __len__ = __repr__ = __str__ = __iter__ = __getitem__ = __eq__ = __hash__ = __bool__ = fail
    __class__ = property(fail)


class UsersList:
    """A list of datapoints whose length takes long."""

    def __len__(self):
        raise AssertionError("called")

    def __getitem__(self, index):
        return [index]


Color = Enum("Color", ["RED"])


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (None, None),
        (True, True),
        (3, np.int64(3)),
        (0.5, np.float32(0.5)),
        ("nan", float("nan")),
        ("-inf", -np.inf),
        ("Color.RED", Color.RED),
        ([1, [2, "a"]], (1, [2, "a"])),
        (["'a'", "'b'"], sorted(map(repr, {"b", "a"}))),
        ({"1": 2}, {1: 2}),
        ({"class": "int"}, int),
        ("float32", np.dtype("float32")),
        ("range(0, 3)", range(3)),
        ("re.compile('a+')", re.compile("a+")),
    ],
)
def test_values(expected, value):
    """Plain values stay as they are; others become text or lists."""
    assert expected == describe(value)


def test_an_object():
    """An object is described by its class and the arguments of its constructor, or else by its public attributes."""
    here = Setting.__module__
    assert {"type": f"{here}.Setting", "arguments": {"size": 3, "rate": 0.1}} == describe(Setting(3))
    assert {"kept": [1]} == describe(Other([1]))["arguments"]


def test_a_pipeline():
    """A DataFlow is described with the DataFlows inside it, and their lengths; an unknown length is null."""
    described = describe(BatchData(DataFromList([[1], [2]], shuffle=False), 2))
    inner = {"type": "DataFromList", "arguments": {"lst": [[1], [2]], "shuffle": False}, "length": 2}
    assert ("BatchData", inner, 1) == (described["type"], described["arguments"]["ds"], described["length"])
    assert describe(DataFromGenerator(lambda: iter([[1]])))["length"] is None
    one, two = DataFromList([[1]], shuffle=False), DataFromList([[1], [2]], shuffle=False)
    one.other, two.other = two, [one, two]  # objects that refer to each other
    assert 1 == describe(one)["length"]


def test_an_array():
    """An array has its dtype and shape, and another checksum if an element differs."""
    array = np.arange(6, dtype="int32").reshape(2, 3)
    text = describe(array)["array"]
    assert text.startswith("int32 (2, 3) ")
    assert text != describe(array + 1)["array"]
    assert checksum(np.array(["a", "b"], dtype=object)) == checksum(np.array(["a", "b"], dtype=object))


def test_a_long_list():
    """A long list has its length and a digest, which depends on its items."""
    found = describe(list(range(50)))
    assert 50 == found["length"]
    assert found["digest"] != describe([*range(49), 0])["digest"]
    arrays = [np.full(3, k) for k in range(60)]
    assert describe(arrays) == describe([array.copy() for array in arrays])
    assert describe(arrays) != describe([*arrays[:50], np.zeros(3), *arrays[51:]])


def test_functions():
    """A function is described by its code and by what it captures."""

    def make(rate, unused="a"):
        return lambda epoch: epoch * rate if unused in {"a", "b", "c"} else 0

    assert describe(make(0.1)) == describe(make(0.1))
    assert describe(make(0.1)) != describe(make(0.2))
    assert describe(lambda x: x + 1)["code"] != describe(lambda x: x + 2)["code"]
    assert {"args": [1], "b": 2} == describe(functools.partial(divmod, 1, b=2))["arguments"]
    assert {"function": "len"} == describe(len)


def test_a_cycle_ends():
    """An object that contains itself is described once."""
    items = [1]
    items.append(items)
    assert [1, {"type": "list"}] == describe(items)


def test_a_large_structure_is_cut():
    """A description has a bounded number of values, also that of a tree of lists that share branches."""
    nested = [[[[k] * 20] * 20] * 20 for k in range(20)]
    tree = [Other(0)] * 40
    for _ in range(12):
        tree = [tree] * 40
    for value in (nested, tree):
        assert len(json.dumps(Describer(seconds=1e9).describe(value))) < 300000


def inside(value):
    """Return a value inside a mapper, as an attribute, in containers, and as a captured variable."""
    return [
        value,
        {"a": (value,)},
        Other(value),
        functools.partial(print, value),
        MapData(DataFromList([[1]]), lambda dp: [dp, value]),
    ]


def test_nothing_of_the_users_objects_is_called():
    """Attributes are read without the methods of the object's class."""
    found = describe(inside(Blocking(0.1)))
    here = {"type": f"{Blocking.__module__}.Blocking", "arguments": {"rate": 0.1}}
    assert here == found[0]
    assert {"value": here} == found[4]["arguments"]["func"]["captured"]


def test_objects_that_have_every_attribute():
    """A mock, and a user's object with any attribute, end the description."""

    class Endless:
        def __getattr__(self, name):
            return Endless()

    found = describe(inside(mock.MagicMock()))
    assert {"type": "unittest.mock.MagicMock"} == found[0]
    assert describe(Endless())["type"].endswith("Endless")


def test_methods_of_containers():
    """Subclasses of built-in containers are read by the methods of the built-in class."""

    def fail(*_):
        raise AssertionError("called")

    names = [
        "__len__",
        "__iter__",
        "__getitem__",
        "items",
        "keys",
        "__repr__",
        "__str__",
        "__float__",
        "__int__",
        "__index__",
    ]
    kinds = [type("Sub", (base,), dict.fromkeys(names, fail)) for base in (list, tuple, dict, set, str, int, float)]
    values = [[1, 2], (1, 2), {"a": 1}, {1, 2}, "abc", 3, 0.5]
    expected = [[1, 2], [1, 2], {"a": 1}, [1, 2], "abc", 3, 0.5]
    assert expected == [describe(kind(value)) for kind, value in zip(kinds, values)]


def test_modules_and_other_libraries_are_not_entered():
    """A module, and an object or function of another library, is described by its name."""
    entered = argparse.Namespace(rate=0.1)
    found = describe([np, json, threading.Lock(), np.random.RandomState(), json.dumps, socket.socket, entered])
    assert [{"module": "numpy"}, {"module": "json"}] == found[:2]
    assert [{"type"}, {"type"}, {"function"}, {"class"}] == [set(one) for one in found[2:6]]
    assert {"type": "argparse.Namespace", "arguments": {"rate": 0.1}} == found[6]


def test_modules_are_not_loaded():
    """A module that is captured, or that loads itself when an attribute is looked up, is described by its name."""

    class Lazy(types.ModuleType):
        def __getattr__(self, name):
            raise AssertionError("loaded")

    def make():
        import xml.dom.minidom

        return lambda dp: xml.dom.minidom.parseString(dp)

    assert {"xml": {"module": "xml"}} == describe(make())["captured"]
    assert {"module": "lazy"} == describe(Lazy("lazy"))


def test_a_variable_without_a_value():
    """A captured variable that is assigned later has no description yet."""

    def make():
        def function():
            return later

        found = describe(function)
        later = 1
        return found, later

    assert {"later": "..."} == make()[0]["captured"]


def test_the_time_is_over():
    """Values that are reached when the time is over are omitted, in all calls together. A digest then says nothing."""
    clock = itertools.count().__next__
    describer = Describer(seconds=3, clock=clock)
    assert [[], [], "...", "..."] == describer.describe([[], [], [], []])
    assert "..." == describer.describe([])
    late = Describer(seconds=3, clock=itertools.count().__next__).describe([[1]] * 50)
    assert {"length": 50, "digest": "..."} == late


@pytest.mark.parametrize(
    "value",
    [
        list(range(10**6)),
        [[k, {"a": k}] for k in range(20000)],
        dict.fromkeys(range(10**6)),
        set(range(10**6)),
        deque(range(10**6)),
        "a" * 10**7,
        b"a" * 10**7,
        10**100000,
        np.zeros((3000, 3000), "uint8").T,
        np.array([b"a" * 10**6] * 50, dtype=object),
    ],
    ids=lambda value: type(value).__name__,
)
def test_large_values(value):
    """A large value is described by its length and a sample, in a fraction of the time limit."""
    steps = iter(range(1000))
    describer = Describer(seconds=1000, clock=lambda: next(steps))
    assert len(json.dumps(describer.describe(value))) < 3000


def test_an_array_in_a_file(tmp_path):
    """The elements of an array in a file are not read."""
    array = np.memmap(str(tmp_path / "a"), dtype="uint8", mode="w+", shape=(5, 4))
    assert {"array": "uint8 (5, 4) in a file"} == describe(array) == describe(np.asarray(array)[:])


def test_the_length_of_a_users_class():
    """The length of a DataFlow is omitted if it asks an object of the user."""
    inner = DataFromList(UsersList(), shuffle=False)
    assert "length" not in describe(MapData(inner, len))
    assert 50 == describe(DataFromList(list(range(50))))["length"]


@pytest.mark.slow
def test_it_is_the_same_in_every_process():
    """Descriptions of functions and sets do not depend on the seed of Python's hashes."""
    code = (
        "from tensorpack_lite.diagnostics.manifest.describe import describe;"
        "print(describe([lambda x: x in {'a', 'b', 'c'}, {'a', 'b', 'c'}, object()]))"
    )
    assert 1 == len({run_python("-c", code, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")})


def test_files(tmp_path):
    """Files that a description names are counted, with those in directories; other text is not a path."""
    (tmp_path / "a.txt").write_text("abc")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.txt").write_text("de")
    os.utime(str(tmp_path / "a.txt"), (50, 50))
    os.utime(str(tmp_path / "b" / "c.txt"), (70, 70))
    found = describe_files({"x": [str(tmp_path), "train", f"{tmp_path}/none"], "y": str(tmp_path / "a.txt")})
    assert {"files": 2, "bytes": 5, "newest": 70.0} == found[str(tmp_path)]
    assert {"files": 1, "bytes": 3, "newest": 50.0} == found[str(tmp_path / "a.txt")]
    assert 2 == len(found)
