"""Pickles of plain data: read in all forms they come in, and nothing in them is run."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from fakes.datasets import pixels, python2_pickle

from tensorpack_lite.dataflow.dataset.array_pickle import load_array_dict
from tensorpack_lite.utils import plain_pickle
from tensorpack_lite.utils.errors import DamagedFileError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.fixture
def load(tmp_path):
    """Read bytes as a file."""

    def load(content):
        (tmp_path / "data").write_bytes(content)
        return load_array_dict(str(tmp_path / "data"))

    return load


class Runs:
    """Pickled as a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class TestReading:
    def test_python2(self, load):
        """As CIFAR's files are: byte strings, arrays of an old NumPy, keys become str."""
        data = pixels(2, 30)
        content = load(python2_pickle({"data": data, "labels": [3, 4], "names": ["cat"]}))
        np.testing.assert_array_equal(data, content["data"])
        assert (np.uint8, [3, 4], [b"cat"]) == (content["data"].dtype, content["labels"], content["names"])

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    @pytest.mark.parametrize("dtype", ["u1", "<i4", ">i4", "<f8", "?"])
    def test_this_python(self, load, protocol, dtype):
        """Arrays written here and now, with every protocol; the numbers are what counts, not the byte order."""
        data = np.arange(6).reshape(2, 3).astype(dtype)
        got = load(pickle.dumps({b"data": data, "number": 7}, protocol))
        np.testing.assert_array_equal(data, got["data"])
        assert (np.dtype(dtype), 7) == (got["data"].dtype, got["number"])

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_columns_first(self, load, protocol):
        """The order of Fortran."""
        data = np.asfortranarray(pixels(3, 4))
        np.testing.assert_array_equal(data, load(pickle.dumps({"data": data}, protocol))["data"])

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_numpy_numbers(self, load, protocol):
        """A list of labels as NumPy draws them."""
        labels = [np.int64(300), np.uint8(4), np.float32(0.5)]
        assert [300, 4, 0.5] == load(pickle.dumps({"labels": labels}, protocol))["labels"]

    def test_arrays_can_be_changed(self, load):
        """They are the caller's."""
        data = load(pickle.dumps({"data": pixels(3)}))["data"]
        data[0] = 1
        assert 1 == data[0]


class TestHostile:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    @pytest.mark.parametrize("name", ["data", "deeper"])
    def test_calls_are_not_run(self, load, tmp_path, protocol, name):
        """The function is named in the error, and was not called."""
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
        """Neither Python's nor NumPy's."""
        with pytest.raises(DamagedFileError, match="which was not run"):
            load(pickle.dumps({"data": call}))

    def test_objects_in_arrays(self, load):
        """An array of objects is none of numbers."""
        with pytest.raises(DamagedFileError, match="an array of dtype object, expected numbers"):
            load(pickle.dumps({"data": np.array([{}])}))

    @pytest.mark.parametrize("code", [b"V8", b"S3", b"f8,i4", b"(5,)u1", b"no such"])
    def test_other_dtypes(self, load, code):
        """Records, texts, and what is no dtype."""
        content = python2_pickle({"data": pixels(1, 2)})
        small = b"T\x02\x00\x00\x00u1"
        assert small in content
        with pytest.raises(DamagedFileError, match="cannot be read as a pickle of plain data"):
            load(content.replace(small, b"T" + len(code).to_bytes(4, "little") + code))

    def test_a_shape_that_lies(self, load):
        """More values than there are bytes: an error, not a read beyond the end."""
        content = python2_pickle({"data": pixels(2, 3)})
        lie = content.replace(b"J\x03\x00\x00\x00", b"J\x00\x00\x00\x40")
        assert lie != content
        with pytest.raises(DamagedFileError, match="cannot reshape array of size 6"):
            load(lie)

    def test_stand_ins_cannot_be_changed(self, load):
        """A pickle that sets attributes of what it is given changes nothing for the next one."""
        attack = b"\x80\x02cnumpy.core.multiarray\nscalar\n(N}X\x0c\x00\x00\x00__defaults__N" + b"stb."
        with pytest.raises(DamagedFileError, match="plain data|not a pickled dict"):
            load(attack)
        assert plain_pickle._new_dtype.__defaults__ is None
        assert ("C",) == plain_pickle._buffer_array.__defaults__
        assert {} == vars(plain_pickle._scalar)

    def test_persistent_ids(self, load):
        """Nothing outside of the file."""
        with pytest.raises(DamagedFileError, match="persistent"):
            load(b"\x80\x02}X\x01\x00\x00\x00aPx\ns.")


class TestDamaged:
    @pytest.mark.parametrize("size", [0, 1, 10, 60, 200, -1])
    def test_cut_off(self, load, size):
        """At any place."""
        content = python2_pickle({"data": pixels(2, 30), "labels": [3, 4]})
        with pytest.raises(DamagedFileError, match="cannot be read as a pickle of plain data"):
            load(content[:size])

    @pytest.mark.parametrize("content", [[1], "text", None])
    def test_not_a_dict(self, load, content):
        """Another pickle."""
        with pytest.raises(
            DamagedFileError, match=f"is not a pickled dict, it holds {type(content).__name__}"
        ):
            load(pickle.dumps(content))

    def test_absent(self, tmp_path):
        """The operating system's error."""
        with pytest.raises(FileNotFoundError):
            load_array_dict(str(tmp_path / "data"))
