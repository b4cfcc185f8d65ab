"""npz files: what NumPy writes is read, and damage is found by the checksums."""

from __future__ import annotations

import os
import zipfile

import numpy as np
import pytest

from tensorpack_lite.utils.errors import DamagedFileError
from tensorpack_lite.utils.npz import read_npz

ARRAYS = {
    "conv0/W": np.arange(24.0).reshape(2, 3, 4),
    "columns": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
    "text": np.array("abc"),
    "empty": np.zeros((0, 3), "float16"),
    "names": np.array(["a", "bc"]),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes(tmp_path, save):
    """Names, shapes, dtypes and values come back, in their order."""
    path = str(tmp_path / "m.npz")
    save(path, **ARRAYS)
    loaded = read_npz(path)
    assert list(ARRAYS) == list(loaded)
    for name, array in ARRAYS.items():
        assert (array.dtype, array.shape) == (loaded[name].dtype, loaded[name].shape)
        np.testing.assert_array_equal(array, loaded[name])


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "not a zip file"),
        (b"hello", "not a zip file"),
        (b"\x93NUMPY\x01\x00", "not a zip file"),
    ],
)
def test_other_files(tmp_path, content, match):
    """What is not a zip file is one error, with the path."""
    (tmp_path / "m.npz").write_bytes(content)
    with pytest.raises(DamagedFileError, match=f"m.npz cannot be read as an npz file: .*{match}"):
        read_npz(str(tmp_path / "m.npz"))


def test_a_flipped_bit(tmp_path):
    """The checksum of a member is compared, also where nothing is compressed."""
    path = tmp_path / "m.npz"
    np.savez(str(path), w=np.zeros(1000))
    content = bytearray(path.read_bytes())
    content[4000] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match="m.npz cannot be read as an npz file: Bad CRC-32"):
        read_npz(str(path))


def test_a_member_that_is_longer_than_its_head_says(tmp_path):
    """Bytes that no array claims are an error."""
    path = str(tmp_path / "m.npz")
    np.save(str(tmp_path / "w.npy"), np.arange(3))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", (tmp_path / "w.npy").read_bytes() + b"more")
    with pytest.raises(DamagedFileError, match="w.npy is longer than its head says"):
        read_npz(path)


def test_objects_are_refused(tmp_path):
    """An array of Python objects is a pickle, and is not read."""
    path = str(tmp_path / "m.npz")
    np.savez(path, w=np.array([{}], dtype=object))
    with pytest.raises(DamagedFileError, match="allow_pickle=False"):
        read_npz(path)


def test_absent(tmp_path):
    """A missing file stays a FileNotFoundError."""
    with pytest.raises(FileNotFoundError):
        read_npz(os.path.join(str(tmp_path), "none.npz"))
