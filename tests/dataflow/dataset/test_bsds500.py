"""Tests of BSDS500, on small folders in the original format."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.datasets import smooth_image, tar, write_boundaries, write_bsds500, write_image

from tensorpack_lite.dataflow.dataset.bsds500 import BSDS500

pytest.importorskip("cv2")
scipy_io = pytest.importorskip("scipy.io")


@pytest.fixture
def folder(tmp_path):
    """Write two training images: one landscape, one upright."""
    write_bsds500(tmp_path, "train", 2)
    return tmp_path


def boundaries_of(folder, number=1000):
    return folder / "BSR" / "BSDS500" / "data" / "groundTruth" / "train" / f"{number}.mat"


class TestReading:
    @pytest.mark.slow
    def test_images(self, folder):
        """Images are uint8 [321, 481, 3] in BGR order; the upright one is transposed."""
        images = [image for image, _ in BSDS500("train", str(folder), shuffle=False)]
        assert [(321, 481, 3)] * 2 == [image.shape for image in images]
        for k, image in enumerate(images):
            np.testing.assert_allclose(smooth_image(321, 481, seed=k), image, atol=8)

    def test_boundaries(self, folder):
        """Boundaries are float32 in [0, 1], the fraction of annotators, and are transposed with their image."""
        labels = [label for _, label in BSDS500("train", str(folder), shuffle=False)]
        expected = np.zeros((2, 321, 481))
        expected[1, 1, :100] = 0.1
        np.testing.assert_allclose(expected, labels, rtol=1e-6)
        assert {np.dtype("float32")} == {label.dtype for label in labels}

    def test_mean_boundaries(self, folder):
        """Maps of several annotators are averaged pixel by pixel."""
        maps = np.zeros((4, 321, 481), np.uint8)
        maps[0, 5, 7] = maps[1, 5, 7] = maps[2, 5, 7] = maps[3, 320, 480] = 1
        write_boundaries(boundaries_of(folder), maps)
        (_, label), _ = BSDS500("train", str(folder), shuffle=False)
        assert (0.75, 0.25, 1.0) == (label[5, 7], label[320, 480], label.sum())

    def test_archive(self, folder, tmp_path, monkeypatch):
        """The archive is unpacked in the default directory, which is named as in tensorpack."""
        target = tmp_path / "bsds500_data"
        target.mkdir()
        tar(target / "BSR_bsds500.tgz", folder, ["BSR"])
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))
        assert 2 == len(BSDS500("train"))
        assert ["BSR", "BSR_bsds500.tgz"] == sorted(os.listdir(str(target)))


class TestMistakes:
    def test_missing_folder(self, folder):
        """A split that was not unpacked raises ValueError."""
        with pytest.raises(ValueError, match="BSDS500: there are no .jpg files in .*images/val.*unpacked again"):
            BSDS500("val", str(folder))

    def test_missing_boundaries(self, folder):
        """A missing boundary file raises ValueError, which names it."""
        boundaries_of(folder).unlink()
        with pytest.raises(ValueError, match="BSDS500: .*train/1000.mat, the boundaries"):
            BSDS500("train", str(folder))

    @pytest.mark.parametrize(
        ("maps", "match"),
        [
            ([np.zeros((321, 481)), np.zeros((321, 480))], "Boundaries of one shape"),
            ([], "expected a 1 x K cell of structs with Boundaries"),
            (
                [np.full((321, 481), 255)],
                "Boundaries are invalid .expected zeros and ones, got 255.0 to 255.0",
            ),
            (
                [np.zeros((320, 480))],
                "1000.mat has the wrong size .expected 321 x 481 or 481 x 321, got 320 x 480",
            ),
        ],
    )
    def test_invalid_boundaries(self, folder, maps, match):
        """Invalid boundaries raise ValueError, which names the file and the expected content."""
        write_boundaries(boundaries_of(folder), [m.astype(np.uint8) for m in maps])
        with pytest.raises(ValueError, match=match) as info:
            BSDS500("train", str(folder))
        assert "1000.mat" in str(info.value)

    def test_mat_without_cell(self, folder):
        """An array instead of a cell raises ValueError."""
        scipy_io.savemat(str(boundaries_of(folder)), {"groundTruth": np.zeros((321, 481))})
        with pytest.raises(ValueError, match="1000.mat: groundTruth is invalid .expected a 1 x K cell"):
            BSDS500("train", str(folder))

    def test_images_of_another_size(self, folder):
        """An image of another size raises ValueError."""
        write_image(folder / "BSR" / "BSDS500" / "data" / "images" / "train" / "1000.jpg", smooth_image(90, 91))
        with pytest.raises(
            ValueError, match="1000.jpg has the wrong size .expected 321 x 481 or 481 x 321, got 90 x 91"
        ):
            BSDS500("train", str(folder))
