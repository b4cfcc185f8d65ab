"""Tests of SVHN, on small MATLAB files."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.datasets import pixels, write_svhn

from tensorpack_lite.dataflow.dataset.svhn import SVHNDigit

scipy_io = pytest.importorskip("scipy.io")


class TestReading:
    def test_datapoints(self, tmp_path):
        """Datapoints are [uint8 (32, 32, 3), np.uint8]; the last axis of the file comes first, the label 10 becomes 0."""
        images = write_svhn(tmp_path, labels=(0, 1, 9, 0))
        datapoints = list(iter(SVHNDigit("train", str(tmp_path), shuffle=False)))
        np.testing.assert_array_equal(images, [image for image, _ in datapoints])
        assert [0, 1, 9, 0] == [label for _, label in datapoints]
        assert {(np.dtype("uint8"), (32, 32, 3), np.uint8)} == {(i.dtype, i.shape, type(k)) for i, k in datapoints}
        assert all(image.flags.c_contiguous for image, _ in datapoints)

    def test_two_directories(self, tmp_path):
        """Two datasets with different directories do not share data."""
        for name, labels in (("a", (1, 2, 3)), ("b", (4, 5))):
            write_svhn(tmp_path / name, labels=labels)
        first, second = (SVHNDigit("train", str(tmp_path / name)) for name in "ab")
        assert ([1, 2, 3], [4, 5]) == (first.labels.tolist(), second.labels.tolist())

    def test_labels_of_matlab(self, tmp_path):
        """Labels stored as doubles, as MATLAB does, can be read."""
        content = {"X": pixels(32, 32, 3, 2), "y": np.array([[10.0], [3.0]])}
        scipy_io.savemat(str(tmp_path / "test_32x32.mat"), content)
        labels = SVHNDigit("test", str(tmp_path)).labels
        assert ([0, 3], np.uint8) == (labels.tolist(), labels.dtype)


class TestMean:
    def test_of_some_splits(self, tmp_path):
        """The mean over some splits weights each image equally."""
        images = [
            write_svhn(tmp_path, "train", (1, 2, 3), seed=1),
            write_svhn(tmp_path, "test", (1,), seed=2),
        ]
        mean = SVHNDigit.get_per_pixel_mean(("train", "test"), str(tmp_path))
        np.testing.assert_allclose(np.concatenate(images).mean(axis=0), mean, rtol=1e-6)
        assert np.float32 == mean.dtype

    def test_of_the_default_directory(self, tmp_path, monkeypatch):
        """By default the mean is over all three splits in the default directory."""
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))
        images = [write_svhn(tmp_path / "svhn_data", n, seed=k) for k, n in enumerate(("train", "test", "extra"))]
        expected = np.concatenate(images).mean(axis=0)
        np.testing.assert_allclose(expected, SVHNDigit.get_per_pixel_mean(), rtol=1e-6)

    def test_no_names(self):
        """An empty list of names raises ValueError."""
        with pytest.raises(ValueError, match="SVHNDigit: names is empty"):
            SVHNDigit.get_per_pixel_mean(())


class TestMistakes:
    @pytest.mark.parametrize(
        ("content", "match"),
        [
            (
                {"X": pixels(3, 32, 32, 2), "y": [1, 2]},
                r"X is invalid .expected uint8 .*got uint8 \[3, 32, 32, 2\]",
            ),
            ({"X": pixels(32, 32, 3), "y": [1]}, r"got uint8 \[32, 32, 3\]"),
            ({"X": np.zeros((32, 32, 3, 2)), "y": [1, 2]}, r"got float64 \[32, 32, 3, 2\]"),
            ({"X": pixels(32, 32, 3, 2), "y": [0, 1]}, "y is invalid .expected 1 to 10, got 0 to 1"),
            ({"X": pixels(32, 32, 3, 2), "y": [1, 11]}, "y is invalid .expected 1 to 10, got 1 to 11"),
            ({"X": pixels(32, 32, 3, 2), "y": [1, 2, 3]}, "y is invalid .expected 2 numbers, got 3 values"),
            ({"digitStruct": 1}, "does not contain the variable X, y. Is it a file of this dataset"),
        ],
    )
    def test_other_contents(self, tmp_path, content, match):
        """The other format of SVHN, or other contents, raises ValueError."""
        scipy_io.savemat(str(tmp_path / "test_32x32.mat"), content)
        with pytest.raises(ValueError, match=match):
            SVHNDigit("test", str(tmp_path))
