"""Images and MATLAB files, and what is said when their packages are not installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from fakes.datasets import pixels, smooth_image, write_image

from tensorpack_lite.dataflow.dataset.readers import read_image, read_mat


class TestReadImage:
    @pytest.fixture(autouse=True)
    def needs_cv2(self):
        pytest.importorskip("cv2")

    def test_blue_green_red(self, tmp_path):
        """As OpenCV orders them; a PNG keeps every value."""
        image = pixels(5, 7, 3)
        write_image(tmp_path / "a.png", image)
        got = read_image(str(tmp_path / "a.png"))
        np.testing.assert_array_equal(image, got)
        assert np.uint8 == got.dtype

    def test_grey_becomes_three_channels(self, tmp_path):
        """ImageNet has grey JPEGs too."""
        write_image(tmp_path / "a.jpg", np.full((9, 8), 100, np.uint8))
        got = read_image(str(tmp_path / "a.jpg"))
        assert ((9, 8, 3), 100) == (got.shape, got[4, 4, 0])

    def test_absent(self, tmp_path):
        """Not confused with a damaged one."""
        with pytest.raises(FileNotFoundError, match="There is no image .*a.jpg"):
            read_image(str(tmp_path / "a.jpg"))

    @pytest.mark.parametrize("content", [b"", b"<html>", b"\xff\xd8\xff\xe0 and then nothing"])
    def test_no_image(self, tmp_path, content):
        """None never becomes a datapoint."""
        (tmp_path / "a.jpg").write_bytes(content)
        with pytest.raises(
            ValueError, match=rf"a.jpg \({len(content)} bytes\) is not an image that OpenCV can read"
        ):
            read_image(str(tmp_path / "a.jpg"))

    def test_cut_off_in_the_header(self, tmp_path):
        """Of a true JPEG only the beginning."""
        path = tmp_path / "a.jpg"
        write_image(path, smooth_image(64, 64))
        path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(ValueError, match="is not an image"):
            read_image(str(path))


class TestReadMat:
    @pytest.fixture
    def path(self, tmp_path):
        """A file with `a` and `b`."""
        io = pytest.importorskip("scipy.io")
        path = str(tmp_path / "data.mat")
        io.savemat(path, {"a": pixels(2, 3), "b": np.arange(50.0)}, do_compression=True)
        return path

    def test_values(self, path):
        """In the order asked for."""
        b, a = read_mat(path, "b", "a")
        np.testing.assert_array_equal(pixels(2, 3), a)
        np.testing.assert_array_equal(np.arange(50.0)[np.newaxis], b)

    def test_absent_variables(self, path):
        """The file and the variable are named."""
        with pytest.raises(ValueError, match="data.mat has no variable X. Is it a file of this data set"):
            read_mat(path, "a", "X")

    @pytest.mark.parametrize("size", [0, 50, 128, 140, 200])
    def test_cut_off(self, path, size):
        """At any place: the file is named, and what to do."""
        with open(path, "r+b") as file:
            file.truncate(size)
        with pytest.raises(ValueError, match=r"data.mat (cannot be read as a MATLAB file|has no variable)"):
            read_mat(path, "a", "b")

    def test_something_else(self, path):
        """An error page."""
        with open(path, "wb") as file:
            file.write(b"<html>" * 100)
        with pytest.raises(ValueError, match="data.mat cannot be read as a MATLAB file: .*delete it"):
            read_mat(path, "a")

    def test_no_file(self, tmp_path):
        """The operating system's error."""
        pytest.importorskip("scipy.io")
        with pytest.raises(FileNotFoundError):
            read_mat(str(tmp_path / "nothing.mat"), "a")


@pytest.mark.parametrize(("read", "module"), [(read_image, "cv2"), (read_mat, "scipy.io")])
def test_not_installed(read, module, monkeypatch, tmp_path):
    """The command that installs it, before anything is looked for."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"{read.__name__}: needs .* Run: pip install"):
        read(str(tmp_path / "nothing"))
