"""The limit on the unpacked size of files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile

import numpy as np
import pytest

from tensorpack_lite.dataflow import DataFromList, HDF5Data, NumpySerializer
from tensorpack_lite.dataflow.dataset import Mnist
from tensorpack_lite.dataflow.dataset.files import unpack_tar
from tensorpack_lite.utils import unpacking
from tensorpack_lite.utils.errors import DamagedFileError
from tensorpack_lite.utils.npz import read_npz
from tensorpack_lite.utils.unpacking import BoundedReader, check_unpacked_size

MB = 1 << 20
ZEROS = bytes(3 * MB)
TOO_MUCH = r"unpacks to too much \(expected at most 200 times its \d+ bytes, got \d+ MB or more\)"
ADVICE = r"If you trust the file, set TENSORPACK_LITE_UNPACK_RATIO to at least \d+, or to inf\."


@pytest.fixture
def small_limit(monkeypatch):
    """Set the limit for small files to 1 MB, so that tests write small ones."""
    monkeypatch.setattr(unpacking, "_ALWAYS_ALLOWED", MB)


@pytest.fixture
def packed(tmp_path):
    """A file of 1000 bytes."""
    path = tmp_path / "packed"
    path.write_bytes(bytes(1000))
    return str(path)


class TestLimit:
    def test_small_content_is_always_allowed(self, packed):
        """Up to 512 MB, any ratio is allowed, and above it 200 times the size of the file."""
        check_unpacked_size(packed, 512 * MB)
        with pytest.raises(DamagedFileError, match=rf"^{packed} {TOO_MUCH}. {ADVICE}$"):
            check_unpacked_size(packed, 512 * MB + 1)

    def test_a_large_file_may_be_large(self, packed, small_limit):
        """The limit grows with the file."""
        os.truncate(packed, 100000)
        check_unpacked_size(packed, 200 * 100000)
        with pytest.raises(DamagedFileError, match=TOO_MUCH):
            check_unpacked_size(packed, 200 * 100000 + 1)

    def test_the_advice_is_right(self, packed, monkeypatch):
        """With the value in the message, the file is read."""
        with pytest.raises(DamagedFileError) as info:
            check_unpacked_size(packed, 700 * MB)
        monkeypatch.setenv("TENSORPACK_LITE_UNPACK_RATIO", str(info.value).split()[-4].rstrip(","))
        check_unpacked_size(packed, 700 * MB)

    def test_no_limit(self, packed, monkeypatch):
        """The ratio may be inf."""
        monkeypatch.setenv("TENSORPACK_LITE_UNPACK_RATIO", "inf")
        check_unpacked_size(packed, 1 << 60)

    def test_not_a_number(self, packed, monkeypatch):
        """A variable that is not a number raises a ValueError that names it."""
        monkeypatch.setenv("TENSORPACK_LITE_UNPACK_RATIO", "much")
        with pytest.raises(ValueError, match="TENSORPACK_LITE_UNPACK_RATIO is not a number .*got 'much'"):
            check_unpacked_size(packed, 1 << 60)


class TestBoundedReader:
    @pytest.mark.parametrize("size", [-1, 5, 3 * MB, 10 * MB])
    def test_it_reads_what_the_stream_has(self, packed, size):
        """Any size returns the bytes of the stream."""
        content = os.urandom(4 * MB)
        reader = BoundedReader(io.BytesIO(content), packed)
        assert (content if size < 0 else content[:size]) == reader.read(size)
        assert (b"" if size < 0 else content[size:]) == reader.read()

    def test_it_stops_at_the_limit(self, packed, small_limit):
        """Reading stops at most a chunk after the limit."""
        stream = io.BytesIO(bytes(50 * MB))
        with pytest.raises(DamagedFileError, match=TOO_MUCH):
            BoundedReader(stream, packed).read()
        assert stream.tell() <= 2 * MB


class TestReaders:
    def test_npz(self, tmp_path, small_limit):
        """Parameters that are mostly zeros raise a DamagedFileError before they are unpacked."""
        path = str(tmp_path / "w.npz")
        np.savez_compressed(path, w=np.frombuffer(ZEROS, np.uint8))
        with pytest.raises(DamagedFileError, match=f"w.npz {TOO_MUCH}"):
            read_npz(path)

    def test_numpy_serializer(self, tmp_path, small_limit):
        """An npz file of datapoints has the same limit."""
        path = str(tmp_path / "d.npz")
        NumpySerializer.save(DataFromList([[np.frombuffer(ZEROS, np.uint8)]], shuffle=False), path)
        with pytest.raises(DamagedFileError, match=f"d.npz {TOO_MUCH}"):
            NumpySerializer.load(path)

    def test_idx(self, tmp_path, small_limit):
        """An idx file is not unpacked beyond the limit."""
        (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(ZEROS))
        (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b""))
        with pytest.raises(DamagedFileError, match=f"t10k-images-idx3-ubyte.gz {TOO_MUCH}"):
            Mnist("test", dir=str(tmp_path))

    @pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
    @pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
    def test_tar(self, tmp_path, small_limit, compress, kind):
        """A large file or a large header in an archive raises a DamagedFileError, and nothing of the archive is kept."""
        info = tarfile.TarInfo("a")
        info.size, info.type = len(ZEROS), kind
        path = tmp_path / "a.tar.z"
        path.write_bytes(compress(info.tobuf() + ZEROS + bytes(1024)))
        with pytest.raises(DamagedFileError, match=f"a.tar.z {TOO_MUCH}"):
            unpack_tar(str(path), str(tmp_path / "here"))
        assert [] == os.listdir(str(tmp_path / "here"))

    def test_zeros_after_an_archive(self, tmp_path, small_limit):
        """Endless zeros after the last member raise a DamagedFileError."""
        path = tmp_path / "a.tar.gz"
        path.write_bytes(gzip.compress(bytes(1024) + ZEROS))
        with pytest.raises(DamagedFileError, match=f"a.tar.gz {TOO_MUCH}"):
            unpack_tar(str(path), str(tmp_path / "here"))

    def test_a_large_archive_that_is_not_compressed(self, tmp_path, small_limit):
        """An uncompressed archive, as ILSVRC's, has no limit."""
        path = str(tmp_path / "a.tar")
        with tarfile.open(path, "w") as archive:
            info = tarfile.TarInfo("a")
            info.size = len(ZEROS)
            archive.addfile(info, io.BytesIO(ZEROS))
        unpack_tar(path, str(tmp_path / "here"))
        assert len(ZEROS) == os.path.getsize(str(tmp_path / "here" / "a"))

    def test_hdf5(self, tmp_path):
        """A data set that claims 8 GB in a file of some kilobytes raises a DamagedFileError."""
        h5py = pytest.importorskip("h5py")
        path = str(tmp_path / "d.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", shape=(1 << 30,), dtype="f8", chunks=(1024,))
        with pytest.raises(DamagedFileError, match=f"d.h5 {TOO_MUCH}"):
            HDF5Data(path, ["x"])
