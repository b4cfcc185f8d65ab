"""Serialization of datapoints."""

from __future__ import annotations

import collections
import enum
import pickle
import sys
import tracemalloc
import types

import msgpack
import numpy as np
import pytest

from tensorpack_lite.utils import compatible_serialize, serialize
from tensorpack_lite.utils.serialize import (
    MsgpackSerializer,
    PickleSerializer,
    PyarrowSerializer,
    dumps,
    dumps_once,
    loads,
    loads_once,
)

DATAPOINT = [np.arange(6, dtype="float32").reshape(2, 3), 7, "label", b"bytes", None, {"k": [1.5, True]}]


BAD_DTYPE = msgpack.packb({b"nd": True, b"type": "no dtype", b"shape": [1], b"data": b"1"}, use_bin_type=True)
NO_SCALAR = msgpack.packb({b"nd": False, b"type": "f4", b"data": b""}, use_bin_type=True)


class Color(enum.IntEnum):
    RED = 1


def assert_same(expected, actual):
    assert type(expected) is type(actual)
    if isinstance(expected, np.ndarray):
        assert expected.dtype == actual.dtype
        np.testing.assert_array_equal(expected, actual)
    elif isinstance(expected, (list, tuple)):
        assert len(expected) == len(actual)
        for left, right in zip(expected, actual):
            assert_same(left, right)
    elif isinstance(expected, dict):
        assert list(expected) == list(actual)
        assert_same(list(expected.values()), list(actual.values()))
    else:
        assert expected == actual


class TestDefault:
    def test_round_trip(self):
        """A datapoint keeps its types."""
        assert_same(DATAPOINT, loads(dumps(DATAPOINT)))
        assert_same(DATAPOINT, loads_once(dumps_once(DATAPOINT)))

    def test_is_pickle_as_bytes(self):
        """The default format for storage is pickle, and the result is bytes."""
        assert isinstance(dumps([1]), bytes)
        assert b"\x80\x04" == dumps([1])[:2]  # protocol 4 is the newest that every supported Python reads
        assert [1] == pickle.loads(dumps([1]))

    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_reads_pickles_of_upstream(self, protocol):
        """Pickles of every protocol are read, since tensorpack wrote the newest one of its Python."""
        assert_same(DATAPOINT, loads(pickle.dumps(DATAPOINT, protocol=protocol)))

    @pytest.mark.parametrize(
        "obj",
        [
            *([1], {}, [], {"a": 1}, 5, "text", list(range(20)), None, b"\x80\x04bytes"),
            *(
                0,
                100,
                [0] * 15,
                {0: 0},
                [[0, 0, 0, 0], 0, 0, 0, 0],
                "",
                b"\0" * 20,
            ),  # not mistaken for pyarrow's zeros
        ],
    )
    def test_reads_msgpack(self, obj):
        """Msgpack is detected and read, also an empty dict, whose first byte is that of a pickle."""
        assert_same(obj, loads(MsgpackSerializer.dumps(obj)))

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    @pytest.mark.parametrize("writer", [dumps, MsgpackSerializer.dumps])
    def test_reads_all_kinds_of_bytes(self, kind, writer):
        """bytes, bytearray and memoryview are read."""
        assert [1, "a"] == loads(kind(writer([1, "a"])))

    def test_reads_zmq_frames(self):
        """A zmq.Frame is read."""
        zmq = pytest.importorskip("zmq")

        assert [1] == loads(zmq.Frame(dumps([1])))
        assert [1] == loads_once(zmq.Frame(bytes(dumps_once([1]))))
        assert [1] == MsgpackSerializer.loads(zmq.Frame(MsgpackSerializer.dumps([1])))

    def test_address(self):
        """`utils.compatible_serialize` has the same two functions."""
        assert (dumps, loads) == (compatible_serialize.dumps, compatible_serialize.loads)


class TestMsgpack:
    def again(self, obj):
        return MsgpackSerializer.loads(MsgpackSerializer.dumps(obj))

    @pytest.mark.parametrize(
        "array",
        [
            np.arange(6, dtype="int64").reshape(2, 3),
            np.arange(6, dtype="float16").reshape(3, 2).T,
            np.zeros((0, 3), "uint8"),
            np.array(3, dtype=">i4"),
            np.array([True, False]),
            np.array(["a", "bcd"]),
            np.array([b"a", b"bcd"]),
            np.array([1 + 2j]),
            np.array(["2020-01-01"], dtype="datetime64[D]"),
            np.ones(2, dtype=[("a", "f4"), ("b", "i4", (2,))]),
        ],
        ids=lambda array: str(array.dtype),
    )
    def test_arrays(self, array):
        """Shape, dtype, byte order and values of an array are kept."""
        assert_same(array, self.again(array))

    @pytest.mark.parametrize(
        "scalar",
        [
            np.float64(1.5),
            np.float32(1.5),
            np.int8(3),
            np.bool_(True),
            np.complex64(1j),
            np.datetime64("2020"),
        ],
    )
    def test_numpy_scalars(self, scalar):
        """A NumPy scalar keeps its type."""
        assert_same(scalar, self.again(scalar))

    def test_tuples_become_lists(self):
        """Tuples become lists."""
        assert_same([1, [2, 3]], self.again((1, (2, 3))))

    def test_subclasses_become_what_they_extend(self):
        """Subclasses such as OrderedDict, namedtuple, IntEnum and np.str_ become their base types."""
        point = collections.namedtuple("point", "x y")(1, 2)
        obj = [collections.OrderedDict(a=1), point, Color.RED, np.str_("s"), np.bytes_(b"b")]

        assert_same([{"a": 1}, [1, 2], 1, "s", b"b"], self.again(obj))

    def test_arrays_can_be_written_to(self):
        """Arrays are new and writable."""
        array = self.again(np.zeros(3))
        array[0] = 1

        assert [1, 0, 0] == array.tolist()

    @pytest.mark.slow
    def test_large_arrays(self):
        """Arrays of more than 32 MiB, the limit of msgpack 0.5, are read."""
        assert (40 << 20,) == self.again([np.zeros(40 << 20, "uint8")])[0].shape

    def test_dicts_that_look_alike(self):
        """A dict of the user with one of the format's keys is kept."""
        for obj in ({b"nd": True}, {b"data": b"x"}, {b"complex": 1}):
            assert_same(obj, self.again(obj))

    def test_reads_msgpack_numpy(self):
        """The format of msgpack-numpy, which tensorpack <= 0.9.8 wrote, is read."""
        array = np.arange(3, dtype="<i2")
        written = {b"nd": True, b"type": "<i2", b"kind": b"", b"shape": (3,), b"data": array.tobytes()}
        old = msgpack.packb([written, 5], use_bin_type=True)

        assert_same([array, 5], loads(old))

    @pytest.mark.parametrize(
        ("kind", "dtype"),
        [(b"<i2", "<i2"), ([[b"a", b"<i2"], [b"b", b"<f4", [2]]], [("a", "<i2"), ("b", "<f4", 2)])],
    )
    def test_reads_arrays_of_python_2(self, kind, dtype):
        """Arrays that Python 2 wrote, with the dtype as bytes, are read."""
        array = np.zeros(3, dtype)
        written = {b"nd": True, b"type": kind, b"kind": b"", b"shape": [3], b"data": array.tobytes()}
        assert_same([array], loads(msgpack.packb([written], use_bin_type=True)))

    def test_other_objects(self):
        """Another type raises a TypeError with advice."""
        with pytest.raises(TypeError, match=r"expected numbers.*got set .1.\). Use pickle"):
            MsgpackSerializer.dumps([{1}])

    def test_object_arrays(self):
        """Writing an array of Python objects raises a TypeError."""
        with pytest.raises(TypeError, match="array of Python objects"):
            MsgpackSerializer.dumps([np.array([None, {}], dtype=object)])

    @pytest.mark.parametrize("dtype", ["|O", [["a", "|O"]]])
    def test_object_arrays_are_not_read(self, dtype):
        """Reading an array of Python objects raises a ValueError."""
        hostile = {b"nd": True, b"type": dtype, b"kind": b"O", b"shape": [1], b"data": pickle.dumps([1])}
        with pytest.raises(ValueError, match="array of Python objects, which needs pickle"):
            MsgpackSerializer.loads(msgpack.packb(hostile, use_bin_type=True))

    def test_never_runs_code(self, tmp_path):
        """A pickle raises a ValueError, and its code does not run."""

        class Hostile:
            def __reduce__(self):
                return open, (str(tmp_path / "owned"), "w")

        with pytest.raises(ValueError, match="the bytes are damaged or in another format"):
            MsgpackSerializer.loads(pickle.dumps(Hostile(), protocol=4))
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "damage", [b"", MsgpackSerializer.dumps([1, 2, 3])[:-1], b"\xc1", b"\xa1\xff", BAD_DTYPE, NO_SCALAR]
    )
    def test_broken_bytes(self, damage):
        """Incomplete bytes raise a ValueError."""
        with pytest.raises(ValueError, match="MsgpackSerializer.loads: the bytes are damaged or in another"):
            MsgpackSerializer.loads(damage)

    def test_msgpack_is_not_patched(self):
        """The package msgpack is not patched."""
        MsgpackSerializer.dumps(np.zeros(1))
        with pytest.raises(TypeError, match="serialize"):
            msgpack.packb(np.zeros(1))

    def test_structures(self):
        """Lists and dicts with any simple keys are kept, and numbers of all kinds."""
        obj = {"a": [1, 2.5, 1 + 2j, None, True, "t", b"b"], 3: {b"k": [[]]}}

        assert_same(obj, self.again(obj))


class TestChoice:
    @pytest.mark.parametrize(
        ("value", "serializer"),
        [
            (None, PickleSerializer),
            ("pickle", PickleSerializer),
            ("msgpack", MsgpackSerializer),
            ("anything", MsgpackSerializer),
            ("pyarrow", PyarrowSerializer),
        ],
    )
    def test_by_variable(self, monkeypatch, value, serializer):
        """$TENSORPACK_SERIALIZE selects pickle or pyarrow, and any other value msgpack."""
        monkeypatch.delenv("TENSORPACK_SERIALIZE", raising=False)
        if value is not None:
            monkeypatch.setenv("TENSORPACK_SERIALIZE", value)

        assert serializer is serialize._choose("TENSORPACK_SERIALIZE", PickleSerializer)

    @pytest.mark.slow
    def test_in_a_process(self, run_script):
        """Both variables are read at import."""
        done = run_script(
            """
            from tensorpack_lite.utils.serialize import *
            print(dumps([1]), dumps_once([1]), loads(dumps([1])), loads_once(dumps_once([1])))
            """,
            TENSORPACK_SERIALIZE="msgpack",
            TENSORPACK_ONCE_SERIALIZE="msgpack",
        )

        assert "b'\\x91\\x01' b'\\x91\\x01' [1] [1]\n" == done.stdout

    @pytest.mark.parametrize("function", [PyarrowSerializer.dumps, PyarrowSerializer.dumps_bytes])
    def test_pyarrow_does_not_write(self, function):
        """Writing with pyarrow raises an error that names the variables."""
        with pytest.raises(NotImplementedError, match="Unset TENSORPACK_SERIALIZE"):
            function([1])


class TestPyarrow:
    # the first bytes of serialize([np.arange(3, dtype="int16"), 5]) by pyarrow 10 and 0.12
    NEW = bytes.fromhex("00000000000000000100000000000000ffffffffb00100001000000000000a000c000600")
    OLD = bytes.fromhex("000000000100000000000000000000008c0100001000000000000a000c000600050008000a000000")

    @pytest.mark.parametrize("written", [NEW, OLD])
    def test_without_an_old_pyarrow(self, monkeypatch, written):
        """Without an old pyarrow, its bytes raise an ImportError with the commands that convert the file."""
        monkeypatch.setitem(sys.modules, "pyarrow", types.ModuleType("pyarrow"))  # like pyarrow 12
        with pytest.raises(ImportError, match=r'pyarrow 12 removed.*pip install "pyarrow<12" "numpy<2".*LMDBSer'):
            loads(written)
        monkeypatch.setitem(sys.modules, "pyarrow", None)  # not installed
        with pytest.raises(ImportError, match="PyarrowSerializer.loads: the bytes are in a format that pyarrow"):
            loads(written)

    def test_with_an_old_pyarrow(self, monkeypatch):
        """An installed old pyarrow reads its bytes."""
        pyarrow = types.ModuleType("pyarrow")
        pyarrow.deserialize = lambda view: ["read", bytes(view)]
        monkeypatch.setitem(sys.modules, "pyarrow", pyarrow)
        assert ["read", self.NEW] == loads(self.NEW)

    def test_zeros_are_not_mistaken(self):
        """Damaged bytes that begin with zeros are not mistaken for pyarrow's."""
        with pytest.raises(ValueError, match="damaged or in another format"):
            loads(bytes(40))


class TestDamage:
    def test_an_array_without_a_shape(self):
        """An array without a shape raises a ValueError."""
        damaged = msgpack.packb({b"nd": True, b"type": "f4", b"data": b"1234"}, use_bin_type=True)
        with pytest.raises(ValueError, match="in another format: KeyError: b'shape'"):
            MsgpackSerializer.loads(damaged)

    def test_lists_that_claim_to_be_long(self):
        """Nested lists that claim millions of elements raise a ValueError without allocating them."""
        damaged = b"\xdd\x00\x10\x00\x00" * 200 + b"\xc0" * 20000
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="damaged or in another format"):
                MsgpackSerializer.loads(damaged)
            assert tracemalloc.get_traced_memory()[1] < 150 << 20
        finally:
            tracemalloc.stop()

    def test_long_lists_are_read(self):
        """Lists longer than the limit of the C code are read."""
        assert list(range(20000)) == MsgpackSerializer.loads(MsgpackSerializer.dumps(list(range(20000))))
