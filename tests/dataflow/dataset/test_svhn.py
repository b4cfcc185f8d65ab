"""House numbers, from small MATLAB files."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.datasets import pixels, write_svhn
from fakes.web import serving

from tensorpack_lite.dataflow.dataset import svhn
from tensorpack_lite.dataflow.dataset.svhn import SVHNDigit

scipy_io = pytest.importorskip("scipy.io")


class TestReading:
    def test_datapoints(self, tmp_path):
        """[uint8 (32, 32, 3), np.uint8]; the file's last axis is the first here, its 10 is a zero."""
        images = write_svhn(tmp_path, labels=(0, 1, 9, 0))
        datapoints = list(iter(SVHNDigit("train", str(tmp_path), shuffle=False)))
        np.testing.assert_array_equal(images, [image for image, _ in datapoints])
        assert [0, 1, 9, 0] == [label for _, label in datapoints]
        assert {(np.dtype("uint8"), (32, 32, 3), np.uint8)} == {
            (i.dtype, i.shape, type(k)) for i, k in datapoints
        }
        assert all(image.flags.c_contiguous for image, _ in datapoints)

    @pytest.mark.parametrize("name", ["train", "test", "extra"])
    def test_names(self, tmp_path, name):
        """Each has a file; shuffled by default."""
        write_svhn(tmp_path, name, labels=(1, 2))
        digits = SVHNDigit(name, str(tmp_path))
        assert (2, True) == (len(digits), digits.shuffle)

    def test_each_directory_has_its_own_data(self, tmp_path):
        """A second object reads from where it was told, not what the first one read."""
        for name, labels in (("a", (1, 2, 3)), ("b", (4, 5))):
            write_svhn(tmp_path / name, labels=labels)
        first, second = (SVHNDigit("train", str(tmp_path / name)) for name in "ab")
        assert ([1, 2, 3], [4, 5]) == (first.labels.tolist(), second.labels.tolist())

    def test_the_default_directory(self, tmp_path, monkeypatch):
        """Below the directory of data sets, under tensorpack's name."""
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))
        write_svhn(tmp_path / "svhn_data", "test")
        assert 6 == len(SVHNDigit("test"))

    def test_labels_of_matlab(self, tmp_path):
        """MATLAB writes numbers as doubles."""
        content = {"X": pixels(32, 32, 3, 2), "y": np.array([[10.0], [3.0]])}
        scipy_io.savemat(str(tmp_path / "test_32x32.mat"), content)
        labels = SVHNDigit("test", str(tmp_path)).labels
        assert ([0, 3], np.uint8) == (labels.tolist(), labels.dtype)


class TestMean:
    def test_of_some_splits(self, tmp_path):
        """Each image counts the same."""
        images = [
            write_svhn(tmp_path, "train", (1, 2, 3), seed=1),
            write_svhn(tmp_path, "test", (1,), seed=2),
        ]
        mean = SVHNDigit.get_per_pixel_mean(("train", "test"), str(tmp_path))
        np.testing.assert_allclose(np.concatenate(images).mean(axis=0), mean, rtol=1e-6)
        assert np.float32 == mean.dtype

    def test_of_the_default_directory(self, tmp_path, monkeypatch):
        """All three, as scripts call it."""
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))
        images = [
            write_svhn(tmp_path / "svhn_data", n, seed=k) for k, n in enumerate(("train", "test", "extra"))
        ]
        wanted = np.concatenate(images).mean(axis=0)
        np.testing.assert_allclose(wanted, SVHNDigit.get_per_pixel_mean(), rtol=1e-6)

    def test_of_nothing(self):
        """Refused."""
        with pytest.raises(ValueError, match="SVHNDigit: names is empty"):
            SVHNDigit.get_per_pixel_mean(())


class TestMistakes:
    def test_other_names(self):
        """Refused before any file is looked for."""
        with pytest.raises(ValueError, match="SVHNDigit: name must be 'train', 'test' or 'extra', got 'val'"):
            SVHNDigit("val")

    @pytest.mark.parametrize(
        ("content", "match"),
        [
            ({"X": pixels(3, 32, 32, 2), "y": [1, 2]}, r"X must be uint8 .*got uint8 \[3, 32, 32, 2\]"),
            ({"X": pixels(32, 32, 3), "y": [1]}, r"got uint8 \[32, 32, 3\]"),
            ({"X": np.zeros((32, 32, 3, 2)), "y": [1, 2]}, r"got float64 \[32, 32, 3, 2\]"),
            ({"X": pixels(32, 32, 3, 2), "y": [0, 1]}, "y must be 1 to 10, got 0 to 1"),
            ({"X": pixels(32, 32, 3, 2), "y": [1, 11]}, "y must be 1 to 10, got 1 to 11"),
            ({"X": pixels(32, 32, 3, 2), "y": [1, 2, 3]}, "y must be 2 numbers, got 3 values"),
            ({"digitStruct": 1}, "has no variable X, y. Is it a file of this data set"),
        ],
    )
    def test_other_contents(self, tmp_path, content, match):
        """The other format, or something else."""
        scipy_io.savemat(str(tmp_path / "test_32x32.mat"), content)
        with pytest.raises(ValueError, match=match):
            SVHNDigit("test", str(tmp_path))

    def test_a_download_that_is_wrong(self, tmp_path, monkeypatch):
        """The published checksum is asked for."""
        monkeypatch.setenv("no_proxy", "*")
        write_svhn(tmp_path / "web", "test")
        with serving(tmp_path / "web") as (url, asked):
            origin = svhn.Origin("test_32x32.mat", (url,), svhn._ORIGINS["test"].md5)
            monkeypatch.setitem(svhn._ORIGINS, "test", origin)
            with pytest.raises(OSError, match="md5 is .*, wanted eb5a983be6a315427106f1b164d9cef3"):
                SVHNDigit("test", str(tmp_path / "target"))
        assert (["/test_32x32.mat"], []) == (asked, os.listdir(str(tmp_path / "target")))

    def test_origins(self):
        """Three checksums, all different."""
        checksums = {origin.md5 for origin in svhn._ORIGINS.values()}
        assert [16, 16, 16] == [len(bytes.fromhex(md5)) for md5 in checksums]
