"""Places, from a small folder in the true form."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from fakes.datasets import PLACES, smooth_image, write_places

from tensorpack_lite.dataflow.dataset.places import Places365Standard


@pytest.fixture
def folder(tmp_path):
    """Six images to train on, two to validate."""
    pytest.importorskip("cv2")
    write_places(tmp_path)
    return tmp_path


class TestReading:
    def test_datapoints(self, folder):
        """[uint8 (256, 256, 3) in blue, green, red, int]."""
        datapoints = list(iter(Places365Standard(str(folder), "train", shuffle=False)))
        for k, (image, label) in enumerate(datapoints):
            np.testing.assert_allclose(smooth_image(256, 256, seed=k), image, atol=8)
            assert (np.uint8, (256, 256, 3), k, int) == (image.dtype, image.shape, label, type(label))
        assert 6 == len(datapoints)

    def test_labels_agree_between_the_parts(self, folder):
        """The validation list has two of the six kinds only."""
        val = Places365Standard(str(folder), "val")
        assert ([5, 2], list(PLACES)) == ([label for _, label in val.imglist], val.get_label_names())

    def test_one_list_is_enough(self, folder):
        """The other part may be absent; numbers are those of the kinds that are there."""
        (folder / "train.txt").unlink()
        val = Places365Standard(str(folder), "val")
        assert ["barn", "zoo"] == val.get_label_names()

    def test_shuffle(self, folder):
        """By default for training only."""
        train, val = (Places365Standard(str(folder), name) for name in ("train", "val"))
        assert (True, False, 6, 2) == (train.shuffle, val.shuffle, len(train), len(val))

    def test_kinds_in_two_folders(self, folder):
        """A kind may be a path."""
        path = folder / "val" / "barn" / "indoor" / "a.jpg"
        path.parent.mkdir()
        path.write_bytes(b"")
        (folder / "val.txt").write_text("val/barn/indoor/a.jpg\n")
        assert "barn/indoor" in Places365Standard(str(folder), "val").get_label_names()

    def test_names_are_the_callers(self, folder):
        """What is done to the list is not done to the data set."""
        val = Places365Standard(str(folder), "val")
        val.get_label_names().clear()
        assert 6 == len(val.get_label_names())


class TestMistakes:
    def test_other_names(self, tmp_path):
        """Refused before any file is looked for."""
        with pytest.raises(ValueError, match="Places365Standard: name must be 'train' or 'val', got 'test'"):
            Places365Standard(str(tmp_path), "test")

    def test_no_list(self, tmp_path):
        """What it is, and where to get it."""
        pytest.importorskip("cv2")
        with pytest.raises(ValueError, match="there is no .*train.txt, .*places365standard_easyformat.tar"):
            Places365Standard(str(tmp_path), "train")

    @pytest.mark.parametrize(
        "line", ["airfield.jpg", "/airfield/a.jpg", "/a/airfield/a.jpg 0", "a/../b/c.jpg"]
    )
    def test_other_lines(self, folder, line):
        """The place in the list is named."""
        with (folder / "train.txt").open("a") as file:
            file.write(f"{line}\n")
        with pytest.raises(ValueError, match=r"train.txt:7 is .*, wanted a line like /x/label/image.jpg"):
            Places365Standard(str(folder), "train")

    def test_images_that_are_absent(self, folder):
        """Found out at once."""
        next((folder / "train" / "zoo").iterdir()).unlink()
        with pytest.raises(ValueError, match="Places365Standard: there is no file .*zoo"):
            Places365Standard(str(folder), "train")

    def test_a_damaged_image(self, folder):
        """An error that names it, when its turn comes."""
        next((folder / "train" / "zoo").iterdir()).write_bytes(b"<html>")
        with pytest.raises(ValueError, match="zoo/00000005.jpg .* is not an image"):
            list(iter(Places365Standard(str(folder), "train", shuffle=False)))

    def test_without_opencv(self, tmp_path, monkeypatch):
        """Said by the constructor."""
        monkeypatch.setitem(sys.modules, "cv2", None)
        with pytest.raises(ImportError, match="needs OpenCV, which is not installed"):
            Places365Standard(str(tmp_path), "train")
