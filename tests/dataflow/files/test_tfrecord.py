"""The TFRecord file."""

from __future__ import annotations

import io

import numpy as np
import pytest

from tensorpack_lite.dataflow.files.tfrecord import crc32c, read_records, write_record

# written by TensorFlow 2.15: the records b"abc" and b""
GOLDEN = bytes.fromhex("0300000000000000b099490e6162636e57f121000000000000000029039807d8ea82a2")


def bitwise(data: bytes) -> int:
    """CRC-32C as the standard defines it, bit by bit."""
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = (checksum >> 1) ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


def write(path, records) -> None:
    """A file of these records."""
    with open(str(path), "wb") as file:
        for record in records:
            write_record(file, record)


class TestCrc32c:
    @pytest.mark.parametrize(
        ("data", "checksum"),
        [(b"", 0), (b"123456789", 0xE3069283), (b"\x00" * 32, 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
    )
    def test_published_values(self, data, checksum):
        """Those of RFC 3720, B.4."""
        assert checksum == crc32c(data)

    @pytest.mark.parametrize("size", [1, 63, 64, 65, 255, 256, 257, 1000, 4096, 4097, 65536 + 3, 3 * 65536])
    def test_any_length(self, size):
        """Around the borders of blocks and chunks, against the definition."""
        data = np.random.RandomState(size).bytes(size)
        assert bitwise(data) == crc32c(data)

    def test_anything_with_a_buffer(self):
        """Arrays of any dtype as well."""
        array = np.arange(300, dtype=np.float64)
        assert crc32c(array.tobytes()) == crc32c(array)


class TestFile:
    def test_the_bytes(self):
        """Exactly those that TensorFlow writes."""
        file = io.BytesIO()
        write_record(file, b"abc")
        write_record(file, b"")
        assert GOLDEN == file.getvalue()

    def test_round_trip(self, tmp_path):
        """Records of many lengths come back in their order."""
        records = [bytes(range(256)) * k for k in (0, 1, 2, 100)]
        write(tmp_path / "f", records)
        assert records == list(read_records(str(tmp_path / "f")))

    def test_tensorflow_reads_it_and_we_read_tensorflows(self, tmp_path):
        """Both ways, with the real one."""
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
    def test_cut_off(self, cut, tmp_path):
        """Wherever it was cut, the record is named; what came before is given."""
        path = tmp_path / "f"
        write(path, [b"first", b"second"])
        first = 12 + len(b"first") + 4
        path.write_bytes(path.read_bytes()[: first + cut])
        found = []
        with pytest.raises(ValueError, match="f: record 1 is cut off. Was the file written to its end?"):
            found.extend(read_records(str(path)))
        records = read_records(str(path))
        assert b"first" == next(records)

    @pytest.mark.parametrize(
        ("place", "message"), [(0, "damaged length"), (9, "damaged length"), (13, "checksum is wrong")]
    )
    def test_damaged(self, place, message, tmp_path):
        """One wrong byte is found."""
        path = tmp_path / "f"
        write(path, [b"first"])
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(bytes(content))
        with pytest.raises(ValueError, match=f"f: record 0 .*{message}"):
            list(read_records(str(path)))

    def test_a_huge_length_takes_no_memory(self, tmp_path):
        """Its own checksum is checked first."""
        path = tmp_path / "f"
        path.write_bytes(b"\xff" * 12)
        with pytest.raises(ValueError, match="damaged length. Is this an uncompressed TFRecord file?"):
            list(read_records(str(path)))
