"""Tests of serializers with real files, and with the exact bytes that tensorpack 0.11 and older versions wrote."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys

import numpy as np
import pytest
from fakes.reading import ready, send_second_half

from tensorpack_lite.dataflow import serialize
from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.files import lmdb_files
from tensorpack_lite.dataflow.files.tfrecord import write_record
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.serialize import (
    HDF5Serializer,
    LMDBSerializer,
    NumpySerializer,
    TFRecordSerializer,
)
from tensorpack_lite.utils.errors import DamagedFileError

# [np.array([1.5, 2.5], float32), 3], pickled with protocol 4 on NumPy 1.18
PICKLE_4 = (
    b"\x80\x04\x95\x98\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x15numpy.core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94"
    b"\x8c\x05numpy\x94\x8c\x07ndarray\x94\x93\x94K\x00\x85\x94C\x01b\x94\x87\x94R\x94(K\x01K\x02\x85\x94h\x04\x8c\x05dtype"
    b"\x94\x93\x94\x8c\x02f4\x94K\x00K\x01\x87\x94R\x94(K\x03\x8c\x01<\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94b"
    b"\x89C\x08\x00\x00\xc0?\x00\x00 @\x94t\x94bK\x03e."
)
# the same, pickled with protocol 5, the highest since Python 3.8, on NumPy 1.26
PICKLE_5 = (
    b"\x80\x05\x95\x81\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x12numpy.core.numeric\x94\x8c\x0b_frombuffer\x94\x93\x94(\x96"
    b"\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\xc0?\x00\x00 @\x94\x8c\x05numpy\x94\x8c\x05dtype\x94\x93\x94\x8c\x02f4\x94"
    b"\x89\x88\x87\x94R\x94(K\x03\x8c\x01<\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94bK\x02\x85\x94\x8c\x01C\x94t"
    b"\x94R\x94K\x03e."
)
# the same, written by msgpack-numpy for tensorpack <= 0.9.8
MSGPACK = (
    b"\x92\x85\xc4\x02nd\xc3\xc4\x04type\xa3<f4\xc4\x04kind\xc4\x00\xc4\x05shape\x91\x02\xc4\x04data\xc4\x08"
    b"\x00\x00\xc0?\x00\x00 @\x03"
)
# the list of keys ["00000000"], as bytes
KEYS_PICKLE_4 = b"\x80\x04\x95\x0f\x00\x00\x00\x00\x00\x00\x00]\x94C\x0800000000\x94a."
KEYS_PICKLE_5 = b"\x80\x05" + KEYS_PICKLE_4[2:]
KEYS_MSGPACK = b"\x91\xc4\x0800000000"


class Numbers(DataFlow):
    """[array, k] for k = 0, 1, ..., with a count of resets."""

    def __init__(self, size=6):
        self.size_, self.resets = size, 0

    def __iter__(self):
        for k in range(self.size_):
            yield [np.full((2, 3), k, np.float32), k]

    def __len__(self):
        return self.size_

    def reset_state(self):
        self.resets += 1


class Failing(DataFlow):
    """A DataFlow that fails after two datapoints."""

    def __iter__(self):
        yield [np.zeros(2), 0]
        yield [np.zeros(2), 1]
        raise OSError("the disk is gone")


class Custom:
    """An object that is not plain data."""


def read(flow) -> list:
    """Iterate a DataFlow and return its numbers."""
    return [int(dp[1]) for dp in flow]


def save_as(name, flow, path) -> None:
    """Save with a serializer."""
    if name == "HDF5Serializer":
        HDF5Serializer.save(flow, path, ["image", "label"])
    else:
        getattr(serialize, name).save(flow, path)


def load_as(name, path):
    """Load with a serializer, in order."""
    if name == "HDF5Serializer":
        return HDF5Serializer.load(path, ["image", "label"], shuffle=False)
    if name == "TFRecordSerializer":
        return TFRecordSerializer.load(path)
    return getattr(serialize, name).load(path, shuffle=False)


needs_python_38 = pytest.mark.skipif(sys.version_info < (3, 8), reason="Python 3.7 cannot read pickle protocol 5")
NAMES = ["LMDBSerializer", "TFRecordSerializer", "NumpySerializer", "HDF5Serializer"]


@pytest.fixture(params=NAMES)
def name(request):
    """Name of a serializer whose package is installed."""
    package = {"LMDBSerializer": "lmdb", "HDF5Serializer": "h5py"}.get(request.param)
    if package:
        pytest.importorskip(package)
    return request.param


@pytest.fixture
def lmdb():
    """The package lmdb."""
    return pytest.importorskip("lmdb")


class TestAll:
    def test_what_was_saved_is_loaded(self, name, tmp_path):
        """Loading yields the saved arrays and numbers, in the same order, in each of two passes."""
        path = str(tmp_path / "data.npz")
        save_as(name, Numbers(), path)
        flow = ready(load_as(name, path))
        for _ in range(2):
            found = list(flow)
            assert list(range(6)) == [int(dp[1]) for dp in found]
            for k, (array, _number) in enumerate(found):
                assert np.float32 == array.dtype
                np.testing.assert_array_equal(np.full((2, 3), k), array)

    def test_saving_resets_once(self, name, tmp_path):
        """`save` resets the DataFlow once."""
        source = Numbers()
        save_as(name, source, str(tmp_path / "data.npz"))
        assert 1 == source.resets

    def test_a_length_is_not_needed(self, name, tmp_path):
        """A DataFlow without a length can be saved."""
        path = str(tmp_path / "data.npz")
        save_as(name, DataFromGenerator(lambda: iter(Numbers())), path)
        assert list(range(6)) == read(ready(load_as(name, path)))

    def test_an_existing_file_is_refused(self, name, tmp_path):
        """`save` raises FileExistsError for an existing file, and does not change it."""
        path = tmp_path / "data.npz"
        path.write_bytes(b"precious")
        with pytest.raises(FileExistsError, match=f"{name}: .*data.npz already exists. Remove it, or choose"):
            save_as(name, Numbers(), str(path))
        assert b"precious" == path.read_bytes()

    def test_a_failure_leaves_nothing(self, name, tmp_path):
        """If the DataFlow fails, no file is left behind, and the next run can write it."""
        path = str(tmp_path / "data.npz")
        with pytest.raises(OSError, match="the disk is gone"):
            save_as(name, Failing(), path)
        assert [] == os.listdir(str(tmp_path))
        save_as(name, Numbers(), path)
        assert ["data.npz"] == os.listdir(str(tmp_path))

    def test_only_dataflows_are_saved(self, name, tmp_path):
        """Saving a list raises TypeError, which tells how to wrap it."""
        with pytest.raises(TypeError, match=f"{name}.save: expected a DataFlow, got list. Wrap the data first"):
            save_as(name, [[1, 2]], str(tmp_path / "data"))

    def test_a_directory_that_is_not_there(self, name, tmp_path):
        """A missing directory raises FileNotFoundError, which names it."""
        with pytest.raises(FileNotFoundError, match="there is no directory .*absent. Create it first"):
            save_as(name, Numbers(), str(tmp_path / "absent" / "data.npz"))

    def test_a_file_that_is_not_there(self, name, tmp_path):
        """A missing file raises an error in `load`, not later while iterating."""
        with pytest.raises(OSError, match="absent"):
            load_as(name, str(tmp_path / "absent.npz"))

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_it_can_be_read_in_another_process(self, name, method, tmp_path):
        """A file can be read in two processes at once."""
        path = str(tmp_path / "data.npz")
        save_as(name, Numbers(), path)
        mine = ready(load_as(name, path))
        read(mine)
        context = multiprocessing.get_context(method)
        ours, theirs = context.Pipe()
        process = context.Process(target=send_second_half, args=(load_as(name, path), theirs))
        process.start()
        assert ours.poll(60)
        assert [3, 4, 5] == ours.recv()
        process.join()
        assert 0 == process.exitcode
        assert list(range(6)) == read(mine)


class TestLMDB:
    def test_the_format(self, lmdb, tmp_path):
        """The database has keys of eight digits, values of `dumps` and the list of keys, which tensorpack reads."""
        path = str(tmp_path / "data.lmdb")
        LMDBSerializer.save(Numbers(2), path)
        with lmdb.open(path, subdir=False, readonly=True, lock=False) as environment, environment.begin() as txn:
            entries = dict(txn.cursor())
        assert [b"00000000", b"00000001", b"__keys__"] == sorted(entries)
        assert [b"00000000", b"00000001"] == pickle.loads(entries[b"__keys__"])
        assert 1 == pickle.loads(entries[b"00000001"])[1]

    @pytest.mark.parametrize(
        ("value", "keys"),
        [
            pytest.param(PICKLE_4, KEYS_PICKLE_4, id="pickle 4"),
            pytest.param(PICKLE_5, KEYS_PICKLE_5, id="pickle 5", marks=needs_python_38),
            pytest.param(MSGPACK, KEYS_MSGPACK, id="msgpack"),
        ],
    )
    # a pickle of NumPy 1 read by NumPy 2
    @pytest.mark.filterwarnings("ignore:numpy.core.numeric is deprecated:DeprecationWarning")
    @pytest.mark.parametrize("shuffle", [True, False])
    def test_files_of_tensorpack(self, value, keys, shuffle, lmdb, tmp_path):
        """Files of tensorpack are read: pickle of 0.11, and msgpack-numpy up to 0.9.8."""
        directory = tmp_path / "old.lmdb"
        directory.mkdir()
        with lmdb.open(str(directory), map_size=1 << 20) as environment, environment.begin(write=True) as txn:
            txn.put(b"00000000", value)
            txn.put(b"__keys__", keys)
        flow = ready(LMDBSerializer.load(str(directory), shuffle=shuffle))
        ((array, number),) = list(flow)
        assert 1 == len(flow)
        assert 3 == number
        assert np.float32 == array.dtype
        assert [1.5, 2.5] == array.tolist()

    def test_a_file_of_pyarrow(self, lmdb, tmp_path, monkeypatch):
        """A file whose values pyarrow wrote is not damaged: the error explains the conversion."""
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        path = str(tmp_path / "old.lmdb")
        value = bytes.fromhex("00000000000000000100000000000000ffffffffb00100001000000000000a000c000600")
        with lmdb.open(path, subdir=False, map_size=1 << 20) as environment, environment.begin(write=True) as txn:
            txn.put(b"00000000", value)
            txn.put(b"__keys__", value)
        with pytest.raises(ImportError, match=r'Convert the file once.*pip install "pyarrow<12"'):
            list(ready(LMDBSerializer.load(path, shuffle=False)))

    def test_into_a_directory(self, lmdb, tmp_path):
        """An existing directory gets one file, data.mdb."""
        LMDBSerializer.save(Numbers(), str(tmp_path))
        assert ["data.mdb"] == os.listdir(str(tmp_path))
        assert list(range(6)) == read(ready(LMDBSerializer.load(str(tmp_path), shuffle=False)))
        with pytest.raises(FileExistsError, match="data.mdb already exists"):
            LMDBSerializer.save(Numbers(), str(tmp_path))

    @pytest.mark.parametrize("write_frequency", [1, 7, 5000])
    def test_a_full_map_loses_nothing(self, write_frequency, lmdb, tmp_path, monkeypatch):
        """No datapoint is lost when the map is full and has to grow, here from 64 KB."""
        monkeypatch.setattr(lmdb_files, "_MAP_BYTES", 1 << 16)
        path = str(tmp_path / "data.lmdb")
        flow = DataFromList([[np.full(200, k), k] for k in range(400)], shuffle=False)  # 640 KB
        LMDBSerializer.save(flow, path, write_frequency)
        assert list(range(400)) == read(ready(LMDBSerializer.load(path, shuffle=False)))

    def test_large_datapoints_are_written_earlier(self, lmdb, tmp_path, monkeypatch):
        """A transaction is also limited in bytes."""
        monkeypatch.setattr(lmdb_files, "_PENDING_BYTES", 1000)
        waiting = []
        flush = lmdb_files.LMDBWriter.flush
        monkeypatch.setattr(
            lmdb_files.LMDBWriter, "flush", lambda self: (waiting.append(len(self._pending)), flush(self))
        )
        LMDBSerializer.save(DataFromList([[np.zeros(100), k] for k in range(6)], shuffle=False), str(tmp_path / "d"))
        assert [2, 2, 2, 1] == waiting  # the last is the list of keys

    def test_more_than_eight_digits(self, lmdb, tmp_path):
        """Keys of a long DataFlow have more digits, so that they sort in numerical order."""

        class Long(Numbers):
            def __len__(self):
                return 10**8 + 1

        path = str(tmp_path / "data.lmdb")
        LMDBSerializer.save(Long(2), path)
        flow = ready(LMDBSerializer.load(path, shuffle=False))
        assert [b"000000000", b"000000001"] == [key for key, _ in flow.ds]

    def test_a_damaged_value(self, lmdb, tmp_path):
        """A value that cannot be unpickled raises DamagedFileError with the path and the key."""
        path = str(tmp_path / "data.lmdb")
        LMDBSerializer.save(Numbers(), path)
        with lmdb.open(path, subdir=False, lock=False) as environment, environment.begin(write=True) as txn:
            txn.put(b"00000003", b"\x80\x04no pickle")
        flow = ready(LMDBSerializer.load(path, shuffle=False))
        with pytest.raises(
            DamagedFileError, match=f"^{path}: the value of b'00000003' cannot be read as a datapoint: "
        ):
            list(flow)


class TestTFRecord:
    def test_a_record_of_something_else(self, tmp_path):
        """A valid record that is not a datapoint raises DamagedFileError with the path and its number."""
        path = str(tmp_path / "data.tfrecord")
        with open(path, "wb") as file:
            write_record(file, pickle.dumps([1]))
            write_record(file, b"\x80\x04no pickle")
        with pytest.raises(DamagedFileError, match=f"^{path}: record 1 cannot be read as a datapoint: "):
            list(ready(TFRecordSerializer.load(path)))

    def test_size_gives_the_length(self, tmp_path):
        """`size` sets the length of the DataFlow and of a pass, which continues where the last one stopped."""
        path = str(tmp_path / "data.tfrecord")
        TFRecordSerializer.save(Numbers(), path)
        with pytest.raises(NotImplementedError):
            len(TFRecordSerializer.load(path))
        flow = ready(TFRecordSerializer.load(path, size=4))
        assert 4 == len(flow)
        assert [0, 1, 2, 3] == read(flow)
        assert [4, 5, 0, 1] == read(flow)

    def test_old_records(self, tmp_path):
        """Pickle and msgpack records of tensorpack are read, even in one file."""
        path = tmp_path / "data.tfrecord"
        with path.open("wb") as file:
            for value in (PICKLE_4, MSGPACK):
                serialize.write_record(file, value)
        assert [3, 3] == read(TFRecordSerializer.load(str(path)))


class TestNumpy:
    def test_any_plain_data(self, tmp_path):
        """Plain data of all kinds keeps its values, types, dtypes and memory order."""
        path = str(tmp_path / "data.npz")
        datapoint = [
            "é", b"\x00\xff", None, True, 1.5, 2 + 1j, 10**30, (1, [2, {"k": np.arange(3)}]), {1, 2},
            np.float32(2.5), np.array(["a", "bcd"]), np.asfortranarray(np.arange(6).reshape(2, 3)),
            np.array([], dtype=np.int16), np.arange(3, dtype=">i4"),
        ]  # fmt: skip
        NumpySerializer.save(DataFromList([datapoint, datapoint], shuffle=False), path)
        first, second = list(ready(NumpySerializer.load(path, shuffle=False)))
        np.testing.assert_equal(datapoint, first)
        np.testing.assert_equal(datapoint, second)
        assert [getattr(a, "dtype", type(a)) for a in datapoint] == [getattr(a, "dtype", type(a)) for a in first]
        assert first[11].flags.f_contiguous

    def test_datapoints_of_equal_arrays_stay_lists(self, tmp_path):
        """Datapoints whose arrays have equal shapes stay lists."""
        path = str(tmp_path / "data.npz")
        NumpySerializer.save(DataFromList([[np.ones(3), np.ones(3)]] * 3, shuffle=False), path)
        (first, *_) = list(ready(NumpySerializer.load(path, shuffle=False)))
        assert list is type(first)
        assert [(3,), (3,)] == [array.shape for array in first]

    def test_the_old_file_with_joined_arrays(self, tmp_path):
        """Datapoints that tensorpack joined into one array are split again."""
        path = str(tmp_path / "old.npz")
        buffer = np.array([[np.ones(3), np.zeros(3)], [np.zeros(3), np.ones(3)]], dtype=object)
        assert (2, 2, 3) == buffer.shape
        np.savez_compressed(path, buffer=buffer)
        first, second = list(ready(NumpySerializer.load(path, shuffle=False)))
        np.testing.assert_equal([np.ones(3), np.zeros(3)], first)
        np.testing.assert_equal([np.zeros(3), np.ones(3)], second)

    def test_npz_is_appended(self, tmp_path):
        """The suffix ".npz" is appended when a file is written and when it is read."""
        NumpySerializer.save(Numbers(), str(tmp_path / "data"))
        assert ["data.npz"] == os.listdir(str(tmp_path))
        assert 6 == len(NumpySerializer.load(str(tmp_path / "data")))

    def test_numpy_reads_the_file(self, tmp_path):
        """NumPy can read the file, as tensorpack does."""
        path = str(tmp_path / "data.npz")
        NumpySerializer.save(Numbers(), path)
        with np.load(path, allow_pickle=True) as content:
            buffer = content["buffer"]
        assert (6,) == buffer.shape
        assert 5 == buffer[5][1]

    def test_code_is_not_run(self, tmp_path):
        """A file whose pickle calls a function raises an error, and the function is not called."""

        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "ran"),)

        path = str(tmp_path / "evil.npz")
        buffer = np.empty(1, dtype=object)
        buffer[0] = [Evil()]
        np.savez_compressed(path, buffer=buffer)
        with pytest.raises(
            ValueError, match="evil.npz cannot be read as an npz file: it names .*mkdir, which was not run"
        ):
            NumpySerializer.load(path)
        assert ["evil.npz"] == os.listdir(str(tmp_path))

    def test_other_objects_are_refused_when_saving(self, tmp_path):
        """An object that is not plain data raises TypeError when it is saved, not when the file is read."""
        with pytest.raises(TypeError, match="datapoint 0: expected numbers, .* got Custom. Use LMDBSerializer"):
            NumpySerializer.save(DataFromList([[Custom()]], shuffle=False), str(tmp_path / "d"))

    def test_a_file_of_something_else(self, tmp_path):
        """A file of another format, or without the array of objects, raises an error."""
        path = tmp_path / "data.npz"
        path.write_bytes(b"nothing")
        with pytest.raises(ValueError, match="data.npz cannot be read"):
            NumpySerializer.load(str(path))
        np.savez(str(path), other=np.ones(3))
        with pytest.raises(ValueError, match="data.npz cannot be read"):
            NumpySerializer.load(str(path))
        np.savez(str(path), buffer=np.ones(3))
        with pytest.raises(ValueError, match="does not contain an array of datapoints"):
            NumpySerializer.load(str(path))


class TestHDF5:
    def test_every_chunk_has_a_checksum(self, tmp_path):
        """A flipped bit in the data raises DamagedFileError, because each chunk has a checksum."""
        pytest.importorskip("h5py")
        path = tmp_path / "data.h5"
        df = DataFromList([[np.full(500, 7, np.uint8)]], shuffle=False)
        HDF5Serializer.save(df, str(path), ["x"])
        content = bytearray(path.read_bytes())
        content[content.index(bytes([7] * 100)) + 50] ^= 1
        path.write_bytes(bytes(content))
        with pytest.raises(DamagedFileError, match="data.h5 cannot be read as an HDF5 file: "):
            HDF5Serializer.load(str(path), ["x"])

    def test_no_datapoints(self, tmp_path):
        """A DataFlow without datapoints is saved as an empty dataset."""
        pytest.importorskip("h5py")
        path = str(tmp_path / "data.h5")
        HDF5Serializer.save(DataFromList([], shuffle=False), path, ["x"])
        assert 0 == len(HDF5Serializer.load(path, ["x"]))

    def test_the_format(self, tmp_path):
        """Each component is a dataset whose rows are the datapoints; paths may contain groups."""
        h5py = pytest.importorskip("h5py")
        path = str(tmp_path / "data.h5")
        HDF5Serializer.save(Numbers(), path, ["image", "meta/label"])
        with h5py.File(path, "r") as file:
            assert (6, 2, 3) == file["image"].shape
            assert [0, 1, 2, 3, 4, 5] == file["meta/label"][()].tolist()

    @pytest.mark.parametrize(
        ("datapoint", "message"),
        [
            (
                [1],
                "datapoint 0 .*expected a list of 2, one component for each of ..a., .b.., got a list of 1",
            ),
            ({"a": 1, "b": 2}, "datapoint 0 .*expected a list of 2, .* got a dict of 2"),
            (["text", 1], "'a' has an unsupported dtype .expected numbers or bytes, got <U4"),
        ],
    )
    def test_datapoints_that_do_not_fit(self, datapoint, message, tmp_path):
        """Datapoints that do not fit raise ValueError, and no file is left."""
        pytest.importorskip("h5py")
        with pytest.raises(ValueError, match=message):
            HDF5Serializer.save(DataFromList([datapoint], shuffle=False), str(tmp_path / "d.h5"), ["a", "b"])
        assert [] == os.listdir(str(tmp_path))

    def test_components_of_several_shapes(self, tmp_path):
        """Components of several shapes raise ValueError."""
        pytest.importorskip("h5py")
        flow = DataFromList([[np.zeros(2)], [np.zeros(3)]], shuffle=False)
        with pytest.raises(ValueError, match=r"'a' has several shapes: \[\(2,\), \(3,\)\]"):
            HDF5Serializer.save(flow, str(tmp_path / "d.h5"), ["a"])
