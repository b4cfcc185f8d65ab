"""Tests of ImageNet and Tiny ImageNet, on small folders in the original format."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.datasets import (
    WNIDS,
    smooth_image,
    write_ilsvrc12,
    write_ilsvrc_meta,
    write_tiny_imagenet,
)

from tensorpack_lite.dataflow.dataset.ilsvrc import ILSVRC12, ILSVRC12Files, TinyImageNet

pytest.importorskip("cv2")


@pytest.fixture(params=["original", "train"])
def structure(request):
    """The structure of the folders val and test."""
    return request.param


@pytest.fixture
def folders(tmp_path, structure):
    """Return the directories of the images and of the metadata."""
    write_ilsvrc_meta(tmp_path / "meta")
    write_ilsvrc12(tmp_path / "images", tmp_path / "meta", structure)
    return str(tmp_path / "images"), str(tmp_path / "meta")


class TestILSVRC12Files:
    def test_val(self, folders, structure):
        """Datapoints are existing paths with labels; the structure is guessed."""
        images, meta = folders
        below = f"{WNIDS[2]}/" if structure == "train" else ""
        datapoints = list(iter(ILSVRC12Files(images, "val", meta)))
        assert [f"{images}/val/{below}ILSVRC2012_val_00000002.JPEG", 2] == datapoints[2]
        assert [0, 1, 2, 3, 4, 5] == [label for _, label in datapoints]

    def test_train(self, folders):
        """Training images are in folders by class."""
        images, meta = folders
        flow = ILSVRC12Files(images, "train", meta, shuffle=False)
        assert [f"{images}/train/{WNIDS[1]}/{WNIDS[1]}_1.JPEG", 1] == list(iter(flow))[1]

    def test_the_structure_can_be_given(self, folders, structure):
        """The given structure is used; the wrong one finds no files."""
        images, meta = folders
        assert 6 == len(ILSVRC12Files(images, "val", meta, dir_structure=structure))
        wrong = {"original": "train", "train": "original"}[structure]
        with pytest.raises(
            ValueError, match="ILSVRC12Files: the list of images contains .*ILSVRC2012_val_00000000.JPEG"
        ):
            ILSVRC12Files(images, "val", meta, dir_structure=wrong)

    def test_no_folder(self, tmp_path):
        """A missing folder raises ValueError, which names it and the source of the images."""
        with pytest.raises(ValueError, match="ILSVRC12: the folder .*val does not exist.*https://image-net.org"):
            ILSVRC12(str(tmp_path), "val")


class TestILSVRC12:
    def test_datapoints(self, folders):
        """Datapoints are [uint8 (H, W, 3) in BGR order, int], with different sizes."""
        datapoints = list(iter(ILSVRC12(*folders[:1], "val", folders[1])))
        for k, (image, label) in enumerate(datapoints):
            np.testing.assert_allclose(smooth_image(10 + k, 12, seed=k), image, atol=12)
            assert (np.uint8, (10 + k, 12, 3), k) == (image.dtype, image.shape, label)
        assert 6 == len(datapoints)

    @pytest.mark.parametrize(
        ("damage", "error", "match"),
        [
            (lambda path: path.write_bytes(b"\xff\xd8"), ValueError, "is not an image"),
            (lambda path: path.unlink(), FileNotFoundError, "The image"),
        ],
    )
    def test_a_damaged_image(self, folders, damage, error, match, tmp_path):
        """A damaged or missing image ends the pass with an error that names it."""
        flow = ILSVRC12(folders[0], "train", folders[1], shuffle=False)
        damage(tmp_path / "images" / "train" / WNIDS[4] / f"{WNIDS[4]}_4.JPEG")
        with pytest.raises(error, match=match) as info:
            list(iter(flow))
        assert f"{WNIDS[4]}_4.JPEG" in str(info.value)


ANNOTATION = """<annotation><filename>x</filename><size><width>500</width><height>375</height></size>
<object><name>n1</name><bndbox><xmin>10</xmin><ymin>20</ymin><xmax>300</xmax><ymax>375</ymax></bndbox></object>
<object><name>n1</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object>
</annotation>"""


class TestTrainingBoxes:
    IMAGES = (("n1/n1_7.JPEG", 0), ("n1/n1_8.JPEG", 0))

    def write(self, directory, text):
        (directory / "n1").mkdir()
        (directory / "n1" / "n1_7.xml").write_text(text)
        return str(directory)

    def test_boxes(self, tmp_path):
        """The box is float32 xmin, ymin, xmax, ymax of the first object; None without an annotation."""
        boxes = ILSVRC12.get_training_bbox(self.write(tmp_path, ANNOTATION), self.IMAGES)
        assert [10, 20, 300, 375] == boxes[0].tolist()
        assert (np.float32, None) == (boxes[0].dtype, boxes[1])

    def test_order_of_the_corners(self, tmp_path):
        """The corners may be in any order."""
        turned = "<a><object><bndbox><ymax>4</ymax><xmax>3</xmax><ymin>2</ymin><xmin>1</xmin></bndbox></object></a>"
        boxes = ILSVRC12.get_training_bbox(self.write(tmp_path, turned), self.IMAGES)
        assert [1, 2, 3, 4] == boxes[0].tolist()

    def test_no_object(self, tmp_path):
        """An annotation without an object gives None."""
        assert [None, None] == ILSVRC12.get_training_bbox(self.write(tmp_path, "<a></a>"), self.IMAGES)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            ANNOTATION[:150],
            ANNOTATION.replace("<xmin>10</xmin>", ""),
            ANNOTATION.replace(">10<", ">ten<"),
        ],
    )
    def test_damaged(self, tmp_path, text):
        """A damaged annotation raises an error that names the file."""
        with pytest.raises(ValueError, match="n1_7.xml cannot be read as an annotation of an image"):
            ILSVRC12.get_training_bbox(self.write(tmp_path, text), self.IMAGES)

    def test_no_directory(self, tmp_path):
        """A missing directory raises ValueError."""
        with pytest.raises(ValueError, match="get_training_bbox: the directory .*absent does not exist"):
            ILSVRC12.get_training_bbox(str(tmp_path / "absent"), self.IMAGES)


class TestTinyImageNet:
    @pytest.fixture
    def tiny(self, tmp_path):
        """Write three training images and six validation images; return their directory."""
        write_tiny_imagenet(tmp_path)
        return tmp_path

    @pytest.mark.slow
    def test_val(self, tiny):
        """Datapoints are [uint8 (64, 64, 3) in BGR order, int], in the order of the annotations."""
        datapoints = list(iter(TinyImageNet(str(tiny), "val")))
        for k, (image, label) in enumerate(datapoints):
            np.testing.assert_allclose(smooth_image(64, 64, seed=k), image, atol=8)
            assert (np.uint8, (64, 64, 3), k) == (image.dtype, image.shape, label)
        assert 6 == len(datapoints)

    @pytest.mark.slow
    def test_train(self, tiny):
        """Labels are the positions in wnids.txt."""
        train = TinyImageNet(str(tiny), "train", shuffle=False)
        assert ([3, 3, 199], 3) == ([label for _, label in train], len(train))

    @pytest.mark.slow
    def test_other_classes(self, tiny):
        """Other than 200 distinct classes raise ValueError."""
        (tiny / "wnids.txt").write_text("\n".join(WNIDS[:199] + WNIDS[:1]))
        with pytest.raises(ValueError, match="wnids.txt is invalid .expected 200 classes, got 199"):
            TinyImageNet(str(tiny), "val")

    @pytest.mark.slow
    @pytest.mark.parametrize("line", ["val_0.JPEG\tn99999999\t0\t0\t1\t1", "val_0.JPEG", ""])
    def test_other_annotations(self, tiny, line):
        """An invalid annotation raises ValueError, which names the line."""
        with (tiny / "val" / "val_annotations.txt").open("a") as file:
            file.write(f"{line}\n")
        with pytest.raises(ValueError, match=r"val_annotations.txt:7 is invalid .expected a file name and a class"):
            TinyImageNet(str(tiny), "val")

    def test_no_directory(self, tmp_path):
        """A missing directory raises ValueError, which names it and the source."""
        with pytest.raises(ValueError, match="TinyImageNet: .*wnids.txt does not exist.*tiny-imagenet-200.zip"):
            TinyImageNet(str(tmp_path), "val")

    @pytest.mark.slow
    def test_a_class_without_a_folder(self, tiny):
        """A missing class folder raises ValueError."""
        (tiny / "train" / WNIDS[7] / "images").rmdir()
        with pytest.raises(ValueError, match=f"TinyImageNet: .*{WNIDS[7]}/images does not exist"):
            TinyImageNet(str(tiny), "train")
