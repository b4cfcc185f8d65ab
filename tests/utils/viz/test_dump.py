"""Writing and showing the images of a DataFlow."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.utils.viz import dump, dump_dataflow_images

pytestmark = pytest.mark.usefixtures("cv2")

LEVELS = [10, 50, 90, 130, 170, 210, 250]


def plain(level, *shape):
    """An image of one gray, which JPEG keeps."""
    return np.full(shape, level, "uint8")


def flow(*datapoints):
    return DataFromList(list(datapoints), shuffle=False)


@pytest.fixture
def directory(tmp_path):
    """A directory that does not exist."""
    return str(tmp_path / "images")


def read(cv2, directory):
    """Return the images by file name, in the order of their names."""
    return {name: cv2.imread(os.path.join(directory, name)) for name in sorted(os.listdir(directory))}


class TestFiles:
    def test_all_of_the_number(self, cv2, directory):
        """The given number of images is written, numbered from 1."""
        df = flow(*[[plain(level, 8, 8)] for level in LEVELS])
        dump_dataflow_images(df, batched=False, number=3, output_dir=directory)

        files = read(cv2, directory)
        assert ["001.jpg", "002.jpg", "003.jpg"] == list(files)
        assert LEVELS[:3] == [int(image[0, 0, 0]) for image in files.values()]

    def test_batches(self, cv2, directory):
        """The images of a batch are written one by one, with and without a channel axis."""
        df = flow([0, np.stack([plain(level, 8, 8) for level in LEVELS[:4]])], [1, plain(LEVELS[4], 3, 8, 8, 1)])
        dump_dataflow_images(df, index=1, number=5, output_dir=directory)
        assert LEVELS[:5] == [int(image[0, 0, 0]) for image in read(cv2, directory).values()]

    def test_a_key(self, cv2, directory):
        """Datapoints may be dictionaries."""
        dump_dataflow_images(flow({"image": plain(50, 1, 8, 8)}), "image", number=1, output_dir=directory)
        assert 50 == read(cv2, directory)["001.jpg"][0, 0, 0]

    def test_pass_after_pass(self, cv2, directory):
        """A short DataFlow is read several times."""
        df = flow([plain(10, 8, 8)], [plain(50, 8, 8)])
        dump_dataflow_images(df, batched=False, number=5, output_dir=directory)
        assert [10, 50, 10, 50, 10] == [int(image[0, 0, 0]) for image in read(cv2, directory).values()]

    def test_scale_and_order_of_channels(self, cv2, directory):
        """RGB in [0, 1] becomes BGR in [0, 255]."""
        red = np.zeros([1, 16, 16, 3], "float32")
        red[..., 0] = 1.0
        dump_dataflow_images(flow([red]), number=1, output_dir=directory, scale=255, flipRGB=True)
        np.testing.assert_allclose([0, 0, 255], read(cv2, directory)["001.jpg"][8, 8], atol=3)

    def test_resize(self, cv2, directory):
        """Images are resized to (height, width)."""
        dump_dataflow_images(flow([plain(9, 1, 8, 8)]), number=1, output_dir=directory, resize=(10, 24))
        assert (10, 24, 3) == read(cv2, directory)["001.jpg"].shape

    def test_a_directory_that_cannot_be_written(self, tmp_path, monkeypatch):
        """A directory that cannot be written raises an OSError."""
        monkeypatch.setattr(dump, "mkdir_p", lambda path: None)
        with pytest.raises(OSError, match="OpenCV cannot write .*nowhere.001.jpg. Check the disk's space"):
            dump_dataflow_images(flow([plain(9, 1, 8, 8)]), number=1, output_dir=str(tmp_path / "nowhere"))

    @pytest.mark.parametrize("datapoints", [[], [[np.zeros([0, 8, 8])]]])
    def test_no_images(self, directory, datapoints):
        """A pass without images raises a ValueError."""
        with pytest.raises(ValueError, match="DataFromList yielded no image in component 0 in one pass"):
            dump_dataflow_images(flow(*datapoints), output_dir=directory)


class TestWindows:
    @pytest.fixture
    def grids(self, monkeypatch):
        """Return the gray levels of the images in each shown grid."""
        shown = []

        def stack(images, nr_row, nr_col, viz):
            assert viz
            shown.append(((nr_row, nr_col), [int(image[0, 0, 0]) for image in images]))

        monkeypatch.setattr(dump, "stack_patches", stack)
        return shown

    def test_full_grids_and_a_rest(self, grids, tmp_path, monkeypatch):
        """Every image is in one grid, and no file is written."""
        monkeypatch.chdir(tmp_path)
        df = flow(*[[plain(level, 8, 8)] for level in LEVELS])
        dump_dataflow_images(df, batched=False, number=6, viz=(2, 2))

        assert [((2, 2), LEVELS[:4]), ((2, 2), LEVELS[4:6])] == grids
        assert [] == os.listdir(str(tmp_path))

    def test_no_windows_by_default(self, grids, directory):
        """By default, no window is shown."""
        dump_dataflow_images(flow([plain(9, 1, 8, 8)]), number=2, output_dir=directory)
        assert [] == grids
