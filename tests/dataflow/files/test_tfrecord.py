"""Tests for TFRecord files."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from tensorpack_lite.dataflow.files.tfrecord import _implementation, crc32c, read_records, write_record

# written by TensorFlow 2.15: the records b"abc" and b""
GOLDEN = bytes.fromhex("0300000000000000b099490e6162636e57f121000000000000000029039807d8ea82a2")


def bitwise(data: bytes) -> int:
    """Compute a CRC-32C bit by bit, as the standard defines it."""
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = (checksum >> 1) ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


def write(path, records) -> None:
    """Write a file of these records."""
    with open(str(path), "wb") as file:
        for record in records:
            write_record(file, record)


@pytest.fixture(params=["package", "NumPy"])
def implementation(request, monkeypatch):
    """The two implementations of the checksum: the package crc32c and NumPy."""
    if request.param == "package":
        pytest.importorskip("crc32c")
    else:
        monkeypatch.setitem(sys.modules, "crc32c", None)
    _implementation.cache_clear()
    yield request.param
    _implementation.cache_clear()


@pytest.mark.usefixtures("implementation")
class TestCrc32c:
    @pytest.mark.parametrize(
        ("data", "checksum"),
        [(b"", 0), (b"123456789", 0xE3069283), (b"\x00" * 32, 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
    )
    def test_published_values(self, data, checksum):
        """Checksums equal the values in RFC 3720, B.4."""
        assert checksum == crc32c(data)

    @pytest.mark.parametrize("size", [1, 63, 64, 65, 255, 256, 257, 1000, 4096, 4097, 65536 + 3, 3 * 65536])
    def test_any_length(self, size):
        """Checksums equal the definition around the borders of blocks and chunks."""
        data = np.random.RandomState(size).bytes(size)
        assert bitwise(data) == crc32c(data)

    def test_anything_with_a_buffer(self):
        """Arrays of any dtype have a checksum."""
        array = np.arange(300, dtype=np.float64)
        assert crc32c(array.tobytes()) == crc32c(array)


class TestFile:
    def test_the_bytes(self):
        """The bytes of a file are exactly those that TensorFlow writes."""
        file = io.BytesIO()
        write_record(file, b"abc")
        write_record(file, b"")
        assert GOLDEN == file.getvalue()

    def test_round_trip(self, tmp_path):
        """Records of any length are read in order."""
        records = [bytes(range(256)) * k for k in (0, 1, 2, 100)]
        write(tmp_path / "f", records)
        assert records == list(read_records(str(tmp_path / "f")))

    def test_files_of_tensorflow(self, tmp_path):
        """Files are identical to those of TensorFlow, which can be read."""
        pytest.importorskip("tensorflow")
        from tensorpack_lite.compat import tfv1 as tf

        ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
        records = [b"one", b"two" * 1000]
        write(ours, records)
        with tf.io.TFRecordWriter(theirs) as writer:
            for record in records:
                writer.write(record)
        with open(ours, "rb") as a, open(theirs, "rb") as b:
            assert a.read() == b.read()
        assert records == list(read_records(theirs))

    @pytest.mark.parametrize("cut", [3, 12, 14, 18, 21])
    def test_a_truncated_file(self, cut, tmp_path):
        """Earlier records of a truncated file are read, then an error names the truncated one."""
        path = tmp_path / "f"
        write(path, [b"first", b"second"])
        first = 12 + len(b"first") + 4
        path.write_bytes(path.read_bytes()[: first + cut])
        found = []
        with pytest.raises(ValueError, match="f: record 1 is truncated. Was the file written completely?"):
            found.extend(read_records(str(path)))
        records = read_records(str(path))
        assert b"first" == next(records)

    @pytest.mark.parametrize(
        ("place", "message"), [(0, "damaged length"), (9, "damaged length"), (13, "checksum is wrong")]
    )
    def test_a_damaged_record(self, place, message, tmp_path):
        """A single wrong byte is detected."""
        path = tmp_path / "f"
        write(path, [b"first"])
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(bytes(content))
        with pytest.raises(ValueError, match=f"f: record 0 .*{message}"):
            list(read_records(str(path)))

    def test_a_huge_length_takes_no_memory(self, tmp_path):
        """A damaged length is detected by its checksum before memory is allocated."""
        path = tmp_path / "f"
        path.write_bytes(b"\xff" * 12)
        with pytest.raises(ValueError, match="damaged length. Is this an uncompressed TFRecord file?"):
            list(read_records(str(path)))
