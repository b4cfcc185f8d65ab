"""Tests of the reader of plain pickles, which executes nothing."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from fakes.datasets import pixels, python2_pickle

from tensorpack_lite.dataflow.dataset.readers import load_array_dict
from tensorpack_lite.utils import plain_pickle
from tensorpack_lite.utils.errors import DamagedFileError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.fixture
def load(tmp_path):
    """Write bytes to a file and read it."""

    def load(content):
        (tmp_path / "data").write_bytes(content)
        return load_array_dict(str(tmp_path / "data"))

    return load


class Runs:
    """An object that is pickled as a function call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class TestReading:
    def test_python2(self, load):
        """Pickles of Python 2 with byte strings and old NumPy arrays, as in CIFAR, can be read; keys become str."""
        data = pixels(2, 30)
        content = load(python2_pickle({"data": data, "labels": [3, 4], "names": ["cat"]}))
        np.testing.assert_array_equal(data, content["data"])
        assert (np.uint8, [3, 4], [b"cat"]) == (content["data"].dtype, content["labels"], content["names"])


class TestHostile:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    @pytest.mark.parametrize("name", ["data", "deeper"])
    def test_calls_are_not_run(self, load, tmp_path, protocol, name):
        """A function call is not executed, and the error names the function."""
        mark = tmp_path / "was_here"
        call = Runs(os.mkdir, str(mark))
        content = pickle.dumps({name: call if name == "data" else [[{1: call}]]}, protocol)
        with pytest.raises(
            ValueError, match=r"cannot be read as a pickle of plain data: .*posix.mkdir, which was not run"
        ):
            load(content)
        assert not mark.exists()

    @pytest.mark.parametrize(
        "call",
        [
            Runs(eval, "1"),
            Runs(getattr, "", "upper"),
            Runs(np.load, "x"),
            Runs(np.fromfile, "x"),
            Runs(bytearray, 10**12),
            Runs(pickle.loads, b"N."),
        ],
    )
    def test_no_other_function(self, load, call):
        """No function of Python or NumPy is called."""
        with pytest.raises(DamagedFileError, match="which was not run"):
            load(pickle.dumps({"data": call}))

    def test_objects_in_arrays(self, load):
        """An array of objects raises DamagedFileError."""
        with pytest.raises(DamagedFileError, match="an array of dtype object .expected numbers"):
            load(pickle.dumps({"data": np.array([{}])}))

    @pytest.mark.parametrize("code", [b"V8", b"S3", b"f8,i4", b"(5,)u1", b"no such"])
    def test_other_dtypes(self, load, code):
        """Records, strings and invalid dtypes raise DamagedFileError."""
        content = python2_pickle({"data": pixels(1, 2)})
        small = b"T\x02\x00\x00\x00u1"
        assert small in content
        with pytest.raises(DamagedFileError, match="cannot be read as a pickle of plain data"):
            load(content.replace(small, b"T" + len(code).to_bytes(4, "little") + code))

    def test_inconsistent_shape(self, load):
        """A shape with more values than there are bytes raises an error."""
        content = python2_pickle({"data": pixels(2, 3)})
        lie = content.replace(b"J\x03\x00\x00\x00", b"J\x00\x00\x00\x40")
        assert lie != content
        with pytest.raises(DamagedFileError, match="cannot reshape array of size 6"):
            load(lie)

    def test_no_effect_on_the_next_pickle(self, load):
        """A pickle that sets attributes does not affect the next one."""
        attack = b"\x80\x02cnumpy.core.multiarray\nscalar\n(N}X\x0c\x00\x00\x00__defaults__N" + b"stb."
        with pytest.raises(DamagedFileError, match="plain data|not a pickled dict"):
            load(attack)
        assert plain_pickle._new_array.__defaults__ is None
        assert ("C",) == plain_pickle._buffer_array.__defaults__
        assert {} == vars(plain_pickle._scalar)

    def test_persistent_ids(self, load):
        """Persistent IDs raise DamagedFileError."""
        with pytest.raises(DamagedFileError, match="persistent"):
            load(b"\x80\x02}X\x01\x00\x00\x00aPx\ns.")


class TestDamaged:
    @pytest.mark.parametrize("content", [[1], "text", None])
    def test_not_a_dict(self, load, content):
        """A pickle of something other than a dict raises DamagedFileError."""
        with pytest.raises(DamagedFileError, match=f"is not a pickled dict .got {type(content).__name__}"):
            load(pickle.dumps(content))

    def test_missing_file(self, tmp_path):
        """A missing file raises FileNotFoundError."""
        with pytest.raises(FileNotFoundError):
            load_array_dict(str(tmp_path / "data"))
