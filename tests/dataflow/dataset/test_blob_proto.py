"""Tests of the reader of Caffe's arrays."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from fakes.datasets import blob_proto, varint

from tensorpack_lite.dataflow.dataset.readers import read_blob_proto

VALUES = np.arange(24, dtype="<f4")


def field(number, wire_type, content):
    """Return a field of a message."""
    return varint(number << 3 | wire_type) + content


def packed(number, content):
    """Return a field that contains bytes."""
    return field(number, 2, varint(len(content)) + content)


@pytest.fixture
def read(tmp_path):
    """Write bytes to a file and read it."""

    def read(content):
        (tmp_path / "mean.binaryproto").write_bytes(content)
        return read_blob_proto(str(tmp_path / "mean.binaryproto"))

    return read


class TestReading:
    def test_old_shape(self, read):
        """The old shape is num, channels, height, width; a leading num of 1 is dropped."""
        got = read(blob_proto(VALUES, (2, 3, 4)))
        np.testing.assert_array_equal(VALUES.reshape(2, 3, 4), got)
        assert np.float32 == got.dtype

    def test_sizes_of_two_bytes(self, read):
        """Sizes of two bytes can be read, such as the 256 x 256 of ImageNet's mean."""
        values = np.random.RandomState(0).rand(3 * 256 * 256).astype("<f4")
        np.testing.assert_array_equal(values.reshape(3, 256, 256), read(blob_proto(values, (3, 256, 256))))

    def test_new_shape(self, read):
        """The new shape is a message with packed sizes."""
        shape = packed(7, packed(1, varint(1) + varint(24)))
        assert (1, 24) == read(shape + packed(5, VALUES.tobytes())).shape

    def test_sizes_one_by_one(self, read):
        """Sizes and values that are not packed can be read."""
        shape = packed(7, field(1, 0, varint(3)) + field(1, 0, varint(1)))
        numbers = b"".join(field(5, 5, struct.pack("<f", v)) for v in (1, 2, 3))
        np.testing.assert_array_equal([[1], [2], [3]], read(shape + numbers))

    def test_doubles(self, read):
        """Doubles become float32."""
        got = read(packed(7, packed(1, varint(24))) + packed(8, VALUES.astype("<f8").tobytes()))
        np.testing.assert_array_equal(VALUES, got)
        assert np.float32 == got.dtype

    def test_unknown_fields(self, read):
        """Unknown fields are ignored."""
        other = packed(6, b"1234") + field(99, 0, varint(5)) + field(98, 1, b"8 bytes.") + field(97, 5, b"4444")
        assert (2, 3, 4) == read(other + blob_proto(VALUES, (2, 3, 4))).shape


class TestDamaged:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"<html>",
            b"\xff" * 20,
            blob_proto(VALUES, (2, 3, 5)),
            packed(7, packed(1, varint(2**62))) + packed(5, VALUES.tobytes()),
            packed(5, VALUES.tobytes()[:-1]),
            field(5, 3, b""),
        ],
    )
    def test_invalid_content(self, read, content):
        """Empty files, other files and inconsistent shapes raise ValueError."""
        with pytest.raises(ValueError, match="cannot be read as a BlobProto"):
            read(content)

    def test_missing_file(self, tmp_path):
        """A missing file raises FileNotFoundError."""
        with pytest.raises(FileNotFoundError):
            read_blob_proto(str(tmp_path / "nothing"))
