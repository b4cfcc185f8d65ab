"""Descriptions of objects by JSON values."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import threading
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

import tensorpack_lite
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.utils.manifest.describe import checksum, describe, describe_files


class Color(Enum):
    """An enumeration."""

    RED = 1


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


class Broken:
    """A class whose length raises an error."""

    def __len__(self):
        raise KeyError("no length")


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
    """An object is described by its class and the arguments of its constructor."""
    here = Setting.__module__
    assert {"type": f"{here}.Setting", "arguments": {"size": 3, "rate": 0.1}} == describe(Setting(3))


def test_an_object_with_other_names():
    """If an argument is not found, the public attributes are listed."""
    assert {"kept": [1]} == describe(Other([1]))["arguments"]


def test_a_pipeline():
    """A DataFlow is described with the DataFlows inside it, and their lengths."""
    described = describe(BatchData(DataFromList([[1], [2]], shuffle=False), 2))
    inner = {"type": "DataFromList", "arguments": {"lst": [[1], [2]], "shuffle": False}, "length": 2}
    assert ("BatchData", inner, 1) == (described["type"], described["arguments"]["ds"], described["length"])


def test_an_unknown_length():
    """The length of a DataFlow that has none is null."""
    assert describe(DataFromGenerator(lambda: iter([[1]])))["length"] is None


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
    arrays = [np.full(3, k) for k in range(200)]
    assert describe(arrays) == describe([array.copy() for array in arrays])
    assert describe(arrays) != describe([*arrays[:150], np.zeros(3), *arrays[151:]])


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
    """A description has a bounded number of values."""
    nested = [[[[k] * 20] * 20] * 20 for k in range(20)]
    assert len(json.dumps(describe(nested))) < 300000


def test_an_error_of_the_object():
    """An object that raises an error is described by its class and the error."""
    assert "KeyError: 'no length'" == describe(Broken())["error"]


def test_it_is_the_same_in_every_process():
    """Descriptions of functions and sets do not depend on the seed of Python's hashes."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from tensorpack_lite.utils.manifest.describe import describe;"
        "print(describe([lambda x: x in {'a', 'b', 'c'}, {'a', 'b', 'c'}, object()]))"
    )
    root = str(Path(tensorpack_lite.__file__).parents[1])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, root],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert 1 == len(outputs)


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
