"""Bytes and back."""

from __future__ import annotations

import collections
import enum
import pickle
import tracemalloc

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
        """A datapoint comes back with its types."""
        assert_same(DATAPOINT, loads(dumps(DATAPOINT)))
        assert_same(DATAPOINT, loads_once(dumps_once(DATAPOINT)))

    def test_is_pickle_as_bytes(self):
        """The default format of storage is pickle, and it is bytes."""
        assert isinstance(dumps([1]), bytes)
        assert b"\x80" == dumps([1])[:1]
        assert [1] == pickle.loads(dumps([1]))

    def test_can_be_read_by_python_37(self):
        """Protocol 4 is the newest that every supported Python reads."""
        assert 4 == dumps([1])[1]

    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_reads_pickles_of_upstream(self, protocol):
        """tensorpack wrote the newest protocol of its Python."""
        assert_same(DATAPOINT, loads(pickle.dumps(DATAPOINT, protocol=protocol)))

    @pytest.mark.parametrize(
        "obj", [[1], {}, [], {"a": 1}, 5, "text", list(range(20)), None, b"\x80\x04bytes"]
    )
    def test_reads_msgpack(self, obj):
        """Old files are msgpack, and are recognised; an empty dict too, which begins like a pickle."""
        assert_same(obj, loads(MsgpackSerializer.dumps(obj)))

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    @pytest.mark.parametrize("writer", [dumps, MsgpackSerializer.dumps])
    def test_reads_all_kinds_of_bytes(self, kind, writer):
        """bytes, bytearray, memoryview."""
        assert [1, "a"] == loads(kind(writer([1, "a"])))

    def test_reads_zmq_frames(self):
        """What pyzmq receives without copying."""
        zmq = pytest.importorskip("zmq")

        assert [1] == loads(zmq.Frame(dumps([1])))
        assert [1] == loads_once(zmq.Frame(bytes(dumps_once([1]))))
        assert [1] == MsgpackSerializer.loads(zmq.Frame(MsgpackSerializer.dumps([1])))

    def test_address(self):
        """utils.compatible_serialize has the same two."""
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
        """Shape, dtype, byte order and values are kept."""
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
        """A NumPy scalar stays one; float64 does not become float, so a batch keeps its dtype."""
        assert_same(scalar, self.again(scalar))

    def test_structures(self):
        """Lists and dicts, with any simple keys."""
        obj = {"a": [1, 2.5, None, True, "t", b"b"], 3: {b"k": [[]]}}

        assert_same(obj, self.again(obj))

    def test_tuples_become_lists(self):
        """Msgpack has no tuples."""
        assert_same([1, [2, 3]], self.again((1, (2, 3))))

    def test_subclasses_become_what_they_extend(self):
        """OrderedDict, namedtuple, IntEnum, np.str_."""
        point = collections.namedtuple("point", "x y")(1, 2)
        obj = [collections.OrderedDict(a=1), point, Color.RED, np.str_("s"), np.bytes_(b"b")]

        assert_same([{"a": 1}, [1, 2], 1, "s", b"b"], self.again(obj))

    def test_complex(self):
        """Python's complex numbers."""
        assert_same(1 + 2j, self.again(1 + 2j))

    def test_arrays_can_be_written_to(self):
        """What comes back is a new array, not a view of the bytes."""
        array = self.again(np.zeros(3))
        array[0] = 1

        assert [1, 0, 0] == array.tolist()

    def test_large_arrays(self):
        """More than the 32 MiB at which msgpack 0.5 stopped."""
        assert (40 << 20,) == self.again([np.zeros(40 << 20, "uint8")])[0].shape

    def test_dicts_that_look_alike(self):
        """A user's dict with one of the codec's keys stays a dict."""
        for obj in ({b"nd": True}, {b"data": b"x"}, {b"complex": 1}):
            assert_same(obj, self.again(obj))

    def test_reads_msgpack_numpy(self):
        """The form of the package msgpack-numpy, which tensorpack <= 0.9.8 wrote (bytes written out here)."""
        array = np.arange(3, dtype="<i2")
        written = {b"nd": True, b"type": "<i2", b"kind": b"", b"shape": (3,), b"data": array.tobytes()}
        old = msgpack.packb([written, 5], use_bin_type=True)

        assert_same([array, 5], loads(old))

    def test_other_objects(self):
        """What is not data is named, with a way out."""
        with pytest.raises(TypeError, match="MsgpackSerializer: takes numbers.*got set .1.. Use pickle"):
            MsgpackSerializer.dumps([{1}])

    def test_object_arrays(self):
        """An array of Python objects is refused on the way out."""
        with pytest.raises(TypeError, match="array of Python objects"):
            MsgpackSerializer.dumps([np.array([None, {}], dtype=object)])

    @pytest.mark.parametrize("dtype", ["|O", [["a", "|O"]]])
    def test_object_arrays_are_not_read(self, dtype):
        """And on the way in: they would need pickle."""
        hostile = {b"nd": True, b"type": dtype, b"kind": b"O", b"shape": [1], b"data": pickle.dumps([1])}
        with pytest.raises(ValueError, match="array of Python objects, which would need pickle"):
            MsgpackSerializer.loads(msgpack.packb(hostile, use_bin_type=True))

    def test_never_runs_code(self, tmp_path):
        """A pickle that would make a file is refused, and makes none."""

        class Hostile:
            def __reduce__(self):
                return open, (str(tmp_path / "owned"), "w")

        with pytest.raises(ValueError, match="the bytes are not what dumps"):
            MsgpackSerializer.loads(pickle.dumps(Hostile(), protocol=4))
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "damage", [b"", MsgpackSerializer.dumps([1, 2, 3])[:-1], b"\xc1", b"\xa1\xff", BAD_DTYPE, NO_SCALAR]
    )
    def test_broken_bytes(self, damage):
        """Half a message is a ValueError."""
        with pytest.raises(ValueError, match="MsgpackSerializer: the bytes are not what dumps"):
            MsgpackSerializer.loads(damage)

    def test_msgpack_is_not_patched(self):
        """Plain msgpack still knows nothing of arrays."""
        MsgpackSerializer.dumps(np.zeros(1))
        with pytest.raises(TypeError, match="serialize"):
            msgpack.packb(np.zeros(1))


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
        """$TENSORPACK_SERIALIZE: pickle, pyarrow, anything else is msgpack."""
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

    @pytest.mark.parametrize("function", [PyarrowSerializer.dumps, PyarrowSerializer.loads])
    def test_pyarrow_says_what_to_do(self, function):
        """It is gone; the error names the variables."""
        with pytest.raises(NotImplementedError, match="Unset TENSORPACK_SERIALIZE"):
            function(b"")


class TestDamage:
    def test_an_array_without_a_shape(self):
        """A description that lacks a part is a ValueError."""
        damaged = msgpack.packb({b"nd": True, b"type": "f4", b"data": b"1234"}, use_bin_type=True)
        with pytest.raises(ValueError, match="the bytes are not what dumps.. writes: KeyError: b'shape'"):
            MsgpackSerializer.loads(damaged)

    def test_lists_that_are_said_to_be_long(self):
        """Nested lists that claim millions of elements take memory only for what has come."""
        damaged = b"\xdd\x00\x10\x00\x00" * 200 + b"\xc0" * 20000
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="not what dumps.. writes"):
                MsgpackSerializer.loads(damaged)
            assert tracemalloc.get_traced_memory()[1] < 150 << 20
        finally:
            tracemalloc.stop()

    def test_long_lists_are_read(self):
        """Lists longer than the limit of the fast path are read by the other."""
        assert list(range(20000)) == MsgpackSerializer.loads(MsgpackSerializer.dumps(list(range(20000))))
