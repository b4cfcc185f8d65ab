"""Tests of Places365, on a small folder in the original format."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.datasets import PLACES, smooth_image, write_places

from tensorpack_lite.dataflow.dataset.places import Places365Standard


@pytest.fixture
def folder(tmp_path):
    """Write six training images and two validation images; return their directory."""
    pytest.importorskip("cv2")
    write_places(tmp_path)
    return tmp_path


class TestReading:
    def test_datapoints(self, folder):
        """Datapoints are [uint8 (256, 256, 3) in BGR order, int]."""
        datapoints = list(iter(Places365Standard(str(folder), "train", shuffle=False)))
        for k, (image, label) in enumerate(datapoints):
            np.testing.assert_allclose(smooth_image(256, 256, seed=k), image, atol=8)
            assert (np.uint8, (256, 256, 3), k, int) == (image.dtype, image.shape, label, type(label))
        assert 6 == len(datapoints)

    def test_splits_use_the_same_labels(self, folder):
        """Both splits use the same labels, although the validation list contains only two of six classes."""
        val = Places365Standard(str(folder), "val")
        assert ([5, 2], list(PLACES)) == ([label for _, label in val.imglist], val.get_label_names())

    def test_one_list_is_enough(self, folder):
        """If the other list is missing, labels are those of the classes in the existing list."""
        (folder / "train.txt").unlink()
        val = Places365Standard(str(folder), "val")
        assert ["barn", "zoo"] == val.get_label_names()

    def test_class_with_a_slash(self, folder):
        """The name of a class may contain a slash."""
        path = folder / "val" / "barn" / "indoor" / "a.jpg"
        path.parent.mkdir()
        path.write_bytes(b"")
        (folder / "val.txt").write_text("val/barn/indoor/a.jpg\n")
        assert "barn/indoor" in Places365Standard(str(folder), "val").get_label_names()


class TestMistakes:
    def test_no_list(self, tmp_path):
        """A missing list raises ValueError, which names it and its source."""
        pytest.importorskip("cv2")
        with pytest.raises(
            ValueError,
            match="Places365Standard: .*train.txt, the list of images, does not exist.*places365standard_easyformat.tar",
        ):
            Places365Standard(str(tmp_path), "train")

    @pytest.mark.parametrize("line", ["airfield.jpg", "/airfield/a.jpg", "/a/airfield/a.jpg 0", "a/../b/c.jpg"])
    def test_other_lines(self, folder, line):
        """An invalid line raises ValueError, which names the line."""
        with (folder / "train.txt").open("a") as file:
            file.write(f"{line}\n")
        with pytest.raises(ValueError, match=r"train.txt:7 is invalid .expected a line like /x/label/image.jpg"):
            Places365Standard(str(folder), "train")

    def test_missing_images(self, folder):
        """The constructor raises ValueError if images are missing."""
        next((folder / "train" / "zoo").iterdir()).unlink()
        with pytest.raises(ValueError, match="Places365Standard: the list of images contains .*zoo"):
            Places365Standard(str(folder), "train")

    def test_a_damaged_image(self, folder):
        """A damaged image ends the pass with an error that names it."""
        next((folder / "train" / "zoo").iterdir()).write_bytes(b"<html>")
        with pytest.raises(ValueError, match="zoo/00000005.jpg .* is not an image"):
            list(iter(Places365Standard(str(folder), "train", shuffle=False)))
