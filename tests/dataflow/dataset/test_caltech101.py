"""Tests of the Caltech 101 silhouettes, on a small MATLAB file."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.datasets import pixels, write_caltech101

from tensorpack_lite.dataflow.dataset.caltech101 import Caltech101Silhouettes

scipy_io = pytest.importorskip("scipy.io")
FILE = "caltech101_silhouettes_28_split1.mat"


class TestReading:
    def test_datapoints(self, tmp_path):
        """Datapoints are [float32 (28, 28), 0 or 1, np.uint8]; labels start at 0 instead of 1."""
        data = write_caltech101(tmp_path)
        datapoints = list(iter(Caltech101Silhouettes("train", shuffle=False, dir=str(tmp_path))))
        np.testing.assert_array_equal(data.reshape(6, 28, 28), [image for image, _ in datapoints])
        assert [0, 1, 2, 3, 4, 5] == [label for _, label in datapoints]
        assert {(np.dtype("float32"), np.uint8)} == {(i.dtype, type(k)) for i, k in datapoints}

    @pytest.mark.parametrize(("name", "labels"), [("train", [0, 1, 2, 3, 4, 5]), ("test", [99, 100]), ("val", [50])])
    def test_names(self, tmp_path, name, labels):
        """The file contains three splits; the order is shuffled by default."""
        write_caltech101(tmp_path)
        part = Caltech101Silhouettes(name, dir=str(tmp_path))
        assert (labels, True) == (part.labels.tolist(), part.shuffle)


class TestMistakes:
    @pytest.mark.parametrize(
        ("data", "labels", "match"),
        [
            (
                pixels(2, 256),
                [1, 2],
                r"val_data is invalid .expected numbers \[N, 784\], got uint8 \[2, 256\]",
            ),
            (np.array([["a"] * 784]), [1], "val_data is invalid .expected numbers"),
            (pixels(2, 784) % 2, [0, 1], "val_labels is invalid .expected 1 to 101, got 0 to 1"),
            (pixels(2, 784) % 2, [1, 102], "val_labels is invalid .expected 1 to 101, got 1 to 102"),
            (pixels(2, 784) % 2, [1], "val_labels is invalid .expected 2 numbers, got 1 values"),
        ],
    )
    def test_other_contents(self, tmp_path, data, labels, match):
        """The file with 16 x 16 pixels, or other contents, raises ValueError."""
        scipy_io.savemat(str(tmp_path / FILE), {"val_data": data, "val_labels": labels})
        with pytest.raises(ValueError, match=match):
            Caltech101Silhouettes("val", dir=str(tmp_path))
