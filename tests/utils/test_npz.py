"""npz files are read and written as NumPy does it, and checksums reveal damage."""

from __future__ import annotations

import os
import zipfile

import numpy as np
import pytest

from tensorpack_lite.utils.errors import DamagedFileError
from tensorpack_lite.utils.npz import read_npz, write_npz

ARRAYS = {
    "conv0/W": np.arange(24.0).reshape(2, 3, 4),
    "columns": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
    "text": np.array("abc"),
    "empty": np.zeros((0, 3), "float16"),
    "names": np.array(["a", "bc"]),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_files_of_numpy(tmp_path, save):
    """Names, shapes, dtypes, values and order are those of the file that NumPy wrote."""
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
    """Another kind of file raises a DamagedFileError with the path."""
    (tmp_path / "m.npz").write_bytes(content)
    with pytest.raises(DamagedFileError, match=f"m.npz cannot be read as an npz file: .*{match}"):
        read_npz(str(tmp_path / "m.npz"))


def test_a_flipped_bit(tmp_path):
    """A flipped bit raises a DamagedFileError, also in an uncompressed file."""
    path = tmp_path / "m.npz"
    np.savez(str(path), w=np.zeros(1000))
    content = bytearray(path.read_bytes())
    content[4000] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match="m.npz cannot be read as an npz file: Bad CRC-32"):
        read_npz(str(path))


def test_a_member_with_extra_bytes(tmp_path):
    """Bytes after the array raise a DamagedFileError."""
    path = str(tmp_path / "m.npz")
    np.save(str(tmp_path / "w.npy"), np.arange(3))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w.npy", (tmp_path / "w.npy").read_bytes() + b"more")
    with pytest.raises(DamagedFileError, match="w.npy is longer than its header says"):
        read_npz(path)


def test_pickled_objects(tmp_path):
    """An array of pickled objects raises a DamagedFileError."""
    path = str(tmp_path / "m.npz")
    np.savez(path, w=np.array([{}], dtype=object))
    with pytest.raises(DamagedFileError, match="allow_pickle=False"):
        read_npz(path)


def test_a_missing_file(tmp_path):
    """A missing file raises a FileNotFoundError."""
    with pytest.raises(FileNotFoundError):
        read_npz(os.path.join(str(tmp_path), "none.npz"))


@pytest.mark.parametrize("compress", [False, True])
def test_write_npz(tmp_path, compress):
    """NumPy reads what `write_npz` writes to a path or an open file, with any names."""
    arrays = {"file": np.arange(3), "allow_pickle": np.float32(1.5), "fc/W:0": np.zeros([2, 0])}
    path = tmp_path / "a.npz"
    write_npz(str(path), arrays, compress)
    with open(str(tmp_path / "b.npz"), "wb") as file:
        write_npz(file, arrays, compress)
    for written in (path, tmp_path / "b.npz"):
        with np.load(str(written)) as archive:
            assert set(arrays) == set(archive.files)
            for name, array in arrays.items():
                np.testing.assert_array_equal(array, archive[name])
