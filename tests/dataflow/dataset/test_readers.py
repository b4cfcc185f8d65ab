"""Tests of the readers of images and MATLAB files."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.datasets import pixels, write_image

from tensorpack_lite.dataflow.dataset.readers import read_image, read_mat


class TestReadImage:
    @pytest.fixture(autouse=True)
    def needs_cv2(self):
        pytest.importorskip("cv2")

    def test_bgr(self, tmp_path):
        """The channels are in BGR order, and a PNG keeps all values."""
        image = pixels(5, 7, 3)
        write_image(tmp_path / "a.png", image)
        got = read_image(str(tmp_path / "a.png"))
        np.testing.assert_array_equal(image, got)
        assert np.uint8 == got.dtype

    def test_grayscale(self, tmp_path):
        """Grayscale images get three channels."""
        write_image(tmp_path / "a.jpg", np.full((9, 8), 100, np.uint8))
        got = read_image(str(tmp_path / "a.jpg"))
        assert ((9, 8, 3), 100) == (got.shape, got[4, 4, 0])

    def test_missing_file(self, tmp_path):
        """A missing file raises FileNotFoundError, not DamagedFileError."""
        with pytest.raises(FileNotFoundError, match="The image .*a.jpg does not exist"):
            read_image(str(tmp_path / "a.jpg"))

    @pytest.mark.parametrize("content", [b"", b"<html>", b"\xff\xd8\xff\xe0 and then nothing"])
    def test_not_an_image(self, tmp_path, content):
        """A file that is not an image raises ValueError."""
        (tmp_path / "a.jpg").write_bytes(content)
        with pytest.raises(ValueError, match=rf"a.jpg \({len(content)} bytes\) is not an image that OpenCV can read"):
            read_image(str(tmp_path / "a.jpg"))


class TestReadMat:
    @pytest.fixture
    def path(self, tmp_path):
        """Write a file with `a` and `b`; return its path."""
        io = pytest.importorskip("scipy.io")
        path = str(tmp_path / "data.mat")
        io.savemat(path, {"a": pixels(2, 3), "b": np.arange(50.0)}, do_compression=True)
        return path

    def test_values(self, path):
        """Variables are returned in the given order."""
        b, a = read_mat(path, "b", "a")
        np.testing.assert_array_equal(pixels(2, 3), a)
        np.testing.assert_array_equal(np.arange(50.0)[np.newaxis], b)

    def test_missing_variables(self, path):
        """A missing variable raises ValueError, which names the file and the variable."""
        with pytest.raises(ValueError, match="data.mat does not contain the variable X. Is it a file of this dataset"):
            read_mat(path, "a", "X")

    def test_not_a_mat_file(self, path):
        """An HTML error page raises ValueError."""
        with open(path, "wb") as file:
            file.write(b"<html>" * 100)
        with pytest.raises(ValueError, match="data.mat cannot be read as a MATLAB file: .*delete it"):
            read_mat(path, "a")
