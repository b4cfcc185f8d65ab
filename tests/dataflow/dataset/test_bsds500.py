"""Boundaries that people drew, from small folders in the true form."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.datasets import smooth_image, tar, write_boundaries, write_bsds500, write_image

from tensorpack_lite.dataflow.dataset import bsds500
from tensorpack_lite.dataflow.dataset.bsds500 import BSDS500

pytest.importorskip("cv2")
scipy_io = pytest.importorskip("scipy.io")


@pytest.fixture
def folder(tmp_path):
    """Two images for training: one lying, one upright."""
    write_bsds500(tmp_path, "train", 2)
    return tmp_path


def boundaries_of(folder, number=1000):
    return folder / "BSR" / "BSDS500" / "data" / "groundTruth" / "train" / f"{number}.mat"


class TestReading:
    def test_images(self, folder):
        """uint8 [321, 481, 3] in blue, green, red; the upright one is transposed."""
        images = [image for image, _ in BSDS500("train", str(folder), shuffle=False)]
        assert [(321, 481, 3)] * 2 == [image.shape for image in images]
        for k, image in enumerate(images):
            np.testing.assert_allclose(smooth_image(321, 481, seed=k), image, atol=8)

    def test_boundaries(self, folder):
        """float32 in [0, 1]: the share of the ten people; transposed with its image."""
        labels = [label for _, label in BSDS500("train", str(folder), shuffle=False)]
        wanted = np.zeros((2, 321, 481))
        wanted[1, 1, :100] = 0.1
        np.testing.assert_allclose(wanted, labels, rtol=1e-6)
        assert {np.dtype("float32")} == {label.dtype for label in labels}

    @pytest.mark.parametrize("name", ["train", "val", "test"])
    def test_names(self, tmp_path, name):
        """Each has its folder; shuffled by default; the length is the number of JPEGs."""
        write_bsds500(tmp_path, name, 1)
        flow = BSDS500(name, str(tmp_path))
        assert (1, True) == (len(flow), flow.shuffle)

    def test_people_who_disagree(self, folder):
        """The mean, pixel by pixel."""
        maps = np.zeros((4, 321, 481), np.uint8)
        maps[0, 5, 7] = maps[1, 5, 7] = maps[2, 5, 7] = maps[3, 320, 480] = 1
        write_boundaries(boundaries_of(folder), maps)
        (_, label), _ = BSDS500("train", str(folder), shuffle=False)
        assert (0.75, 0.25, 1.0) == (label[5, 7], label[320, 480], label.sum())

    def test_the_archive(self, folder, tmp_path, monkeypatch):
        """Unpacked in the default directory, below tensorpack's name."""
        target = tmp_path / "bsds500_data"
        target.mkdir()
        tar(target / "BSR_bsds500.tgz", folder, ["BSR"])
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))
        assert 2 == len(BSDS500("train"))
        assert ["BSR", "BSR_bsds500.tgz"] == sorted(os.listdir(str(target)))


class TestMistakes:
    def test_other_names(self):
        """Refused before any file is looked for."""
        with pytest.raises(ValueError, match="BSDS500: name must be 'train', 'val' or 'test', got 'all'"):
            BSDS500("all")

    def test_a_folder_that_is_absent(self, folder):
        """The part was not unpacked."""
        with pytest.raises(
            ValueError, match="BSDS500: there are no .jpg files in .*images/val.*unpacked again"
        ):
            BSDS500("val", str(folder))

    def test_boundaries_that_are_absent(self, folder):
        """The file is named."""
        boundaries_of(folder).unlink()
        with pytest.raises(ValueError, match="BSDS500: there is no .*train/1000.mat, the boundaries"):
            BSDS500("train", str(folder))

    @pytest.mark.parametrize(
        ("maps", "match"),
        [
            ([np.zeros((321, 481)), np.zeros((321, 480))], "Boundaries of one shape"),
            ([], "must be a 1 x K cell of structs with Boundaries"),
            ([np.full((321, 481), 255)], "Boundaries must be zeros and ones, got 255.0 to 255.0"),
            ([np.zeros((320, 480))], "1000.mat is 320 x 480, wanted 321 x 481 or 481 x 321"),
        ],
    )
    def test_other_boundaries(self, folder, maps, match):
        """The path is named, and what was wanted."""
        write_boundaries(boundaries_of(folder), [m.astype(np.uint8) for m in maps])
        with pytest.raises(ValueError, match=match) as info:
            BSDS500("train", str(folder))
        assert "1000.mat" in str(info.value)

    def test_something_else_in_the_mat(self, folder):
        """An array where the cell should be."""
        scipy_io.savemat(str(boundaries_of(folder)), {"groundTruth": np.zeros((321, 481))})
        with pytest.raises(ValueError, match="1000.mat: groundTruth must be a 1 x K cell"):
            BSDS500("train", str(folder))

    def test_images_of_another_size(self, folder):
        """Not cut, not resized."""
        write_image(
            folder / "BSR" / "BSDS500" / "data" / "images" / "train" / "1000.jpg", smooth_image(90, 91)
        )
        with pytest.raises(ValueError, match="1000.jpg is 90 x 91, wanted 321 x 481"):
            BSDS500("train", str(folder))

    def test_without_network(self, tmp_path, monkeypatch):
        """Which file, and where it comes from."""
        url = (tmp_path / "nowhere").as_uri() + "/"
        monkeypatch.setattr(bsds500, "_ORIGIN", bsds500.Origin("BSR_bsds500.tgz", (url,)))
        with pytest.raises(
            OSError, match=r"BSDS500: BSR_bsds500.tgz is not in .*BSDS500\(..., data_dir=...\)"
        ):
            BSDS500("train", str(tmp_path))
