"""Tests of DataFlows that read files of other libraries."""

from __future__ import annotations

import gc
import os
import pickle
import struct

import numpy as np
import pytest
from fakes.reading import ready

from tensorpack_lite.dataflow.files.caffe_datum import decode_datum
from tensorpack_lite.dataflow.format import CaffeLMDB, HDF5Data, LMDBData, LMDBDataDecoder, SVMLightData
from tensorpack_lite.utils.errors import DamagedFileError


def varint(number: int) -> bytes:
    """Encode an integer as protobuf does."""
    parts = []
    number &= (1 << 64) - 1
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def field(number: int, value) -> bytes:
    """Encode a field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def datum(image: np.ndarray, label: int) -> bytes:
    """Encode an image [C, H, W] and its label as Caffe does."""
    channels, height, width = image.shape
    return field(1, channels) + field(2, height) + field(3, width) + field(4, image.tobytes()) + field(5, label)


@pytest.fixture
def lmdb():
    """The package lmdb."""
    return pytest.importorskip("lmdb")


@pytest.fixture
def make(lmdb, tmp_path):
    """A function that writes entries to a database, as a single file or a directory."""

    def write(entries, subdir=False, name="data.lmdb"):
        path = str(tmp_path / name)
        with lmdb.open(path, subdir=subdir, map_size=1 << 24) as env, env.begin(write=True) as txn:
            for key, value in entries.items():
                txn.put(key, value)
        return path

    return write


FOUR = {b"%08d" % k: b"v%d" % k for k in range(4)}


class TestLMDBData:
    @pytest.mark.parametrize("subdir", [True, False])
    def test_file_or_directory(self, subdir, make):
        """Keys and values are yielded in the order of the keys."""
        flow = ready(LMDBData(make(FOUR, subdir), shuffle=False))
        assert [[b"%08d" % k, b"v%d" % k] for k in range(4)] == list(flow)
        assert 4 == len(flow)

    @pytest.mark.parametrize("shuffle", [True, False])
    def test_the_list_of_keys_is_skipped(self, shuffle, make):
        """The entry `__keys__` is neither counted nor yielded."""
        flow = ready(LMDBData(make({**FOUR, b"__keys__": pickle.dumps(sorted(FOUR))}), shuffle=shuffle))
        assert 4 == len(flow)
        assert sorted(FOUR) == sorted(key for key, _ in flow)

    def test_without_a_list_the_file_is_read_for_them(self, make, log_lines):
        """Without `__keys__` the constructor reads the keys from the whole file, once, and logs a warning."""
        flow = ready(LMDBData(make(FOUR)))
        assert sorted(FOUR) == sorted(key for key, _ in flow)
        assert 1 == len(log_lines)
        assert log_lines[0].endswith("has no list of its keys; reading the keys from the whole file.")

    def test_a_format_string(self, make, log_lines):
        """A format string generates the keys, as bytes."""
        flow = ready(LMDBData(make(FOUR), keys="{:0>8d}"))
        assert sorted(FOUR.items()) == sorted((key, value) for key, value in flow)
        assert [] == log_lines

    @pytest.mark.parametrize("keys", [[b"00000003", b"00000001"], ["00000003", "00000001"]])
    def test_some_keys(self, keys, make):
        """Only the listed keys are yielded, in the order of the list, and `len` is the length of the list."""
        flow = ready(LMDBData(make(FOUR), shuffle=False, keys=keys))
        assert [[b"00000003", b"v3"], [b"00000001", b"v1"]] == list(flow)
        assert 2 == len(flow)

    def test_a_key_that_is_not_there(self, make):
        """A missing key raises KeyError."""
        flow = ready(LMDBData(make(FOUR), shuffle=False, keys=[b"x"]))
        with pytest.raises(KeyError, match="has no key b'x'"):
            list(flow)

    def test_keys_of_another_kind(self, make):
        """`keys` of another type raise TypeError."""
        with pytest.raises(TypeError, match="keys: expected a list of keys or a format string, got int"):
            LMDBData(make(FOUR), keys=4)

    def test_two_on_one_file(self, make):
        """Two DataFlows can read the same file at the same time, which lmdb itself does not support."""
        path = make(FOUR)
        first, second = ready(LMDBData(path, shuffle=False)), ready(LMDBData(path, shuffle=False))
        assert [a == b for a, b in zip(first, second)] == [True] * 4

    @pytest.mark.slow
    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files as Linux shows them")
    def test_the_file_is_closed(self, make):
        """The file is closed when the last DataFlow that reads it is deleted."""
        path = os.path.realpath(make(FOUR))
        flow = ready(LMDBData(path, shuffle=False))
        list(flow)
        assert path in open_files()
        del flow
        gc.collect()
        assert path not in open_files()

    def test_it_can_be_pickled_after_its_reset(self, make):
        """A DataFlow can be pickled after its reset; the copy opens the file."""
        flow = ready(LMDBData(make(FOUR), shuffle=False))
        copy = ready(pickle.loads(pickle.dumps(flow)))
        assert list(flow) == list(copy)

    def test_a_damaged_list_of_keys(self, make):
        """A `__keys__` entry that is not a list of bytes raises DamagedFileError."""
        for value in (b"\x80\x04no pickle", pickle.dumps([1, 2]), b"\xc1"):
            path = make({b"a": b"1", b"__keys__": value}, name=f"{value[-1]}.lmdb")
            with pytest.raises(DamagedFileError, match=f"^{path} cannot be read as an LMDB: "):
                LMDBData(path)

    def test_a_key_that_only_the_list_has(self, make):
        """A missing key that `__keys__` lists raises DamagedFileError."""
        path = make({b"a": b"1", b"__keys__": pickle.dumps([b"a", b"b"])})
        with pytest.raises(DamagedFileError, match=f"^{path} has no key b'b', although its list of keys contains it"):
            list(ready(LMDBData(path)))

    @pytest.mark.parametrize("content", [b"", b"not a database", bytes(8192)])
    def test_another_file(self, lmdb, tmp_path, content):
        """A file that is not an LMDB raises DamagedFileError with its path."""
        (tmp_path / "x.lmdb").write_bytes(content)
        with pytest.raises(DamagedFileError, match="x.lmdb cannot be read as an LMDB: "):
            LMDBData(str(tmp_path / "x.lmdb"))

    def test_no_database(self, lmdb, tmp_path):
        """A directory without data.mdb raises FileNotFoundError."""
        with pytest.raises(FileNotFoundError, match="LMDBData: there is no .*data.mdb. Pass a directory with"):
            LMDBData(str(tmp_path))


def open_files() -> list:
    """Return the paths of the files that this process has mapped."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return [line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6]


class TestLMDBDataDecoder:
    def test_the_function_gets_key_and_value(self, make):
        """The function receives key and value; None drops the entry."""
        flow = LMDBDataDecoder(
            LMDBData(make(FOUR), shuffle=False),
            lambda key, value: [int(key), value] if int(key) % 2 else None,
        )
        assert [[1, b"v1"], [3, b"v3"]] == list(ready(flow))


class TestCaffeLMDB:
    def test_images_and_labels(self, make):
        """Images are [H, W, C] uint8 in Caffe's channel order; labels may be negative."""
        images = np.random.RandomState(0).randint(0, 255, (2, 3, 4, 5)).astype(np.uint8)
        path = make({b"0": datum(images[0], 7), b"1": datum(images[1], -1)})
        (first, label), (second, negative) = list(ready(CaffeLMDB(path, shuffle=False)))
        assert (4, 5, 3) == first.shape
        assert np.uint8 == first.dtype
        np.testing.assert_array_equal(images[0].transpose(1, 2, 0), first)
        np.testing.assert_array_equal(images[1].transpose(1, 2, 0), second)
        assert (7, -1) == (label, negative)

    def test_a_damaged_value(self, make):
        """A damaged value raises an error that names its key."""
        with pytest.raises(
            ValueError,
            match="data.lmdb: the value of b'bad' cannot be read as .*: Datum: the message is cut off",
        ):
            list(ready(CaffeLMDB(make({b"bad": datum(np.zeros((1, 2, 2), np.uint8), 3)[:-6]}), shuffle=False)))


class TestDatum:
    def test_floats(self):
        """Floats are decoded, packed or one by one as in old versions."""
        head = field(1, 1) + field(2, 1) + field(3, 2)
        packed = head + field(6, struct.pack("<ff", 1.5, -2.0))
        single = head + b"".join(varint(6 << 3 | 5) + struct.pack("<f", x) for x in (1.5, -2.0))
        for message in (packed, single):
            image, label = decode_datum(message)
            assert np.float32 == image.dtype
            assert [[[1.5], [-2.0]]] == image.tolist()
            assert 0 == label

    def test_compressed(self):
        """Compressed color and grayscale images are decoded; damaged ones raise ValueError."""
        cv2 = pytest.importorskip("cv2")
        with pytest.raises(ValueError, match="Datum: the compressed image cannot be read"):
            decode_datum(field(4, b"no image") + field(7, 1))
        for shape in ((3, 4, 3), (3, 4, 1)):
            picture = np.random.RandomState(0).randint(0, 255, shape).astype(np.uint8)
            message = field(4, cv2.imencode(".png", picture)[1].tobytes()) + field(5, 2) + field(7, 1)
            image, label = decode_datum(message)
            np.testing.assert_array_equal(picture, image)
            assert 2 == label

    def test_unknown_fields_are_skipped(self):
        """Fields of later versions of Caffe are skipped."""
        message = datum(np.ones((1, 1, 1), np.uint8), 5) + field(99, b"new") + varint(98 << 3 | 1) + b"x" * 8
        assert 5 == decode_datum(message)[1]

    @pytest.mark.parametrize(
        ("message", "error"),
        [
            (
                field(1, 3) + field(2, 2) + field(3, 2) + field(4, b"abc"),
                r"the size is wrong .expected \(3, 2, 2\) for channels, height and width, got 3 values",
            ),
            (b"\x08" + b"\xff" * 11, "a number has more than 10 bytes"),
            (b"\x0b", "field 1 is of an unknown kind, 3"),
            (b"\x22\x7fabc", "the message is cut off"),
            (b"\x08", "the message is cut off"),
            (field(6, 3), "float_data does not hold floats"),
            (field(6, b"four") + field(6, 3), "float_data does not hold floats"),
            (field(5, b"3"), "field 5 has the wrong type, bytes"),
            (field(4, 3), "field 4 has the wrong type, int"),
            (field(1, 1 << 40) + field(2, 1 << 40) + field(3, 1), "the size is wrong .* got 0 values"),
        ],
    )
    def test_damaged(self, message, error):
        """Damaged messages raise ValueError before memory is allocated."""
        with pytest.raises(ValueError, match=f"Datum: {error}"):
            decode_datum(message)


class TestHDF5Data:
    @pytest.fixture
    def path(self, tmp_path):
        """A file with two datasets of 20 rows, one of 3 rows, and the key of a group."""
        h5py = pytest.importorskip("h5py")
        path = str(tmp_path / "data.h5")
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(40).reshape(20, 2)
            file["group/y"] = np.arange(20)
            file["short"] = np.arange(3)
        return path

    def test_rows(self, path):
        """Datapoint k is the list of row k of each dataset."""
        flow = ready(HDF5Data(path, ["x", "group/y"], shuffle=False))
        assert [[2 * k, 2 * k + 1, k] for k in range(20)] == [[*x.tolist(), int(y)] for x, y in flow]
        assert 20 == len(flow)

    def test_shuffled(self, path):
        """Each pass has a new order, and components of a row stay together."""
        flow = ready(HDF5Data(path, ["x", "group/y"]))
        first, second = [[int(x[0]), int(y)] for x, y in flow], [[int(x[0]), int(y)] for x, y in flow]
        assert first != second
        assert [[2 * k, k] for k in range(20)] == sorted(first) == sorted(second)

    def test_a_copy_reads_the_file_itself(self, path):
        """A pickle contains no data, and the file is not kept open."""
        flow = HDF5Data(path, ["x"], shuffle=False)
        assert len(pickle.dumps(flow)) < 1000
        copy = ready(pickle.loads(pickle.dumps(flow)))
        assert [list(x[0]) for x in flow] == [list(x[0]) for x in copy]
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "a") as file:
            file["more"] = np.arange(3)

    @pytest.mark.parametrize(
        ("paths", "error", "message"),
        [
            (["x", "short"], DamagedFileError, r"have different lengths: \[20, 3\]"),
            ([], ValueError, "data_paths is empty"),
            (["z"], KeyError, "has no dataset 'z'. It contains group, short, x"),
            ("x", TypeError, r"data_paths: expected a list of paths, got str. Write \['x'\]"),
        ],
    )
    def test_wrong_data_paths(self, paths, error, message, path):
        """Wrong data paths and datasets of different lengths raise an error in the constructor."""
        with pytest.raises(error, match=message):
            HDF5Data(path, paths)

    def test_damaged_files(self, path, tmp_path):
        """A damaged file raises DamagedFileError with the path; a missing file raises FileNotFoundError."""
        with open(path, "rb") as file:
            content = file.read()
        for damaged in (content[: len(content) // 2], b"", b"text"):
            (tmp_path / "damaged.h5").write_bytes(damaged)
            with pytest.raises(DamagedFileError, match="damaged.h5 cannot be read as an HDF5 file: "):
                HDF5Data(str(tmp_path / "damaged.h5"), ["x"])
        with pytest.raises(FileNotFoundError):
            HDF5Data(str(tmp_path / "absent.h5"), ["x"])


class TestSVMLightData:
    def test_another_file(self, tmp_path):
        """A line in another format raises DamagedFileError with the path."""
        pytest.importorskip("sklearn")
        (tmp_path / "d.txt").write_bytes(b"1 0:2\n\xff x\n")
        with pytest.raises(DamagedFileError, match="d.txt cannot be read as an SVMLight file: "):
            SVMLightData(str(tmp_path / "d.txt"))

    def test_lines(self, tmp_path):
        """Datapoints are dense rows and labels."""
        pytest.importorskip("sklearn")
        path = tmp_path / "data.svm"
        path.write_text("1 1:0.5 3:2\n-1 2:1\n")
        flow = ready(SVMLightData(str(path), shuffle=False))
        assert [([0.5, 0, 2], 1), ([0, 1, 0], -1)] == [(list(x), y) for x, y in flow]
        assert 2 == len(flow)
