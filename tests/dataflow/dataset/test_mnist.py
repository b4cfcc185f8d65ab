"""Tests of MNIST and Fashion-MNIST, on synthetic idx files and on the original ones."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from tensorpack_lite.dataflow.dataset import mnist
from tensorpack_lite.dataflow.dataset.mnist import FashionMnist, Mnist

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "mnist"
PIXELS = np.random.RandomState(0).randint(0, 256, (5, 28, 28)).astype(np.uint8)
LABELS = np.array([3, 1, 4, 1, 5], np.uint8)


def packed(magic, values):
    """Return the content of an idx file, before compression."""
    header = struct.pack(">" + "I" * (1 + values.ndim), magic, *values.shape)
    return header + values.tobytes()


def write(directory, half="t10k", images=None, labels=None):
    """Write the two files of one split."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (
        (f"{half}-images-idx3-ubyte.gz", packed(2051, PIXELS) if images is None else images),
        (f"{half}-labels-idx1-ubyte.gz", packed(2049, LABELS) if labels is None else labels),
    ):
        (directory / name).write_bytes(gzip.compress(content))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return the directory of datasets."""
    monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))
    return tmp_path


class TestReading:
    def test_datapoints(self, tmp_path):
        """Datapoints are [float32 (28, 28) in [0, 1], np.uint8], in the order of the file if not shuffled."""
        write(tmp_path)
        datapoints = list(Mnist("test", shuffle=False, dir=str(tmp_path)))
        np.testing.assert_allclose(PIXELS / 255, np.stack([image for image, _ in datapoints]), rtol=1e-6)
        assert LABELS.tolist() == [label for _, label in datapoints]
        assert {(np.dtype("float32"), (28, 28), np.uint8)} == {(i.dtype, i.shape, type(k)) for i, k in datapoints}


class TestFilesThatAreWrong:
    @pytest.mark.parametrize(
        ("content", "match"),
        [
            (packed(2049, PIXELS), "its magic number is 2049 .expected 2051"),
            (packed(2051, PIXELS)[:-1], r"it has 3919 values .expected \[5, 28, 28\]"),
            (packed(2051, PIXELS)[:10], "cut off after 10 bytes, before the end of its header"),
        ],
    )
    def test_images(self, tmp_path, content, match):
        """Damaged images raise ValueError, which names the file and the remedy."""
        write(tmp_path, images=content)
        with pytest.raises(ValueError, match=match) as info:
            Mnist("test", dir=str(tmp_path))
        assert "t10k-images-idx3-ubyte.gz" in str(info.value)

    def test_labels(self, tmp_path):
        """Images instead of labels raise ValueError."""
        write(tmp_path, labels=packed(2051, PIXELS))
        with pytest.raises(ValueError, match="t10k-labels-idx1-ubyte.gz cannot be read as an idx file"):
            Mnist("test", dir=str(tmp_path))


class TestDownload:
    def test_a_right_file_is_used(self, root, monkeypatch):
        """A downloaded file with the right checksum is used."""
        source = root / "elsewhere"
        write(source)
        checksums = tuple((p.name, hashlib.md5(p.read_bytes()).hexdigest()) for p in source.iterdir())
        monkeypatch.setattr(Mnist, "_MIRRORS", (source.as_uri() + "/",))
        monkeypatch.setattr(Mnist, "_MD5", checksums)
        assert LABELS.tolist() == Mnist("test").labels.tolist()


def test_fashion_label_names():
    """The ten names are in the order of the labels."""
    names = FashionMnist.get_label_names(None)
    assert 10 == len(set(names))
    assert ("t-shirt/top", "ankle boot") == (names[0], names[9])


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the 10,000 real test images are not in {REAL}")
class TestTheRealTestHalf:
    def test_checksums(self):
        """The checksums in the class match the original files."""
        for name in mnist._FILES["test"]:
            assert dict(Mnist._MD5)[name] == hashlib.md5((REAL / name).read_bytes()).hexdigest()

    def test_contents(self):
        """The test split has 10,000 images, starts with a seven and has the known mean."""
        real = Mnist("test", shuffle=False, dir=str(REAL))
        image, label = next(iter(real))
        assert (10000, 7) == (len(real), label)
        assert 0.1325 == pytest.approx(float(real.images.mean()), abs=1e-4)
        assert ((28, 28), np.float32) == (image.shape, image.dtype)
        assert [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009] == np.bincount(real.labels).tolist()
