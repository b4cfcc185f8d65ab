"""Tests of the scenes of digits in COCO's format, and of the U-Net that segments them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fakes.programs import read_stats

pytest.importorskip("cv2")
pytest.importorskip("pycocotools")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")

import cv2
from pycocotools.coco import COCO

TWO_STEPS = ["--scenes", "20", "--size", "64", "--steps-per-epoch", "2"]


@pytest.fixture
def scenes(load_example):
    return load_example("data/scenes.py")


@pytest.fixture
def segment(load_example):
    return load_example("segment_scenes.py")


def contents(folder) -> dict:
    """Return the bytes of all files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


class TestScenes:
    def test_same_arguments_make_the_same_files(self, scenes, tmp_path):
        """Two folders with the same arguments have the same files; another seed makes other images."""
        for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
            assert str(tmp_path / name) == scenes.make_scenes(str(tmp_path / name), 3, 2, size=64, seed=seed)
        a, b, c = (contents(tmp_path / name) for name in "abc")
        images = {f"train/00000{i}.jpg" for i in (1, 2, 3)} | {f"test/00000{i}.jpg" for i in (1, 2)}
        assert images | {"train.json", "test.json"} == set(a)
        assert a == b
        assert not any(a[name] == c[name] for name in images)

    def test_more_scenes_begin_with_the_same_ones(self, scenes, tmp_path):
        """A larger number of scenes only adds scenes."""
        few = contents(tmp_path / scenes.make_scenes(str(tmp_path / "few"), 2, 1, size=64))
        many = contents(tmp_path / scenes.make_scenes(str(tmp_path / "many"), 4, 1, size=64))
        assert 2 == len([name for name in few if name.startswith("train/") and few[name] == many[name]])

    def test_existing_scenes_are_not_written_again(self, scenes, tmp_path, monkeypatch):
        """A second call with the same arguments writes nothing; other arguments raise FileExistsError."""
        folder = str(tmp_path)  # an empty folder is valid
        scenes.make_scenes(folder, 1, 1, size=64)
        monkeypatch.setattr(scenes, "write_scenes", None)
        assert folder == scenes.make_scenes(folder, 1, 1, size=64)
        with pytest.raises(FileExistsError, match="other contents"):
            scenes.make_scenes(folder, 2, 1, size=64)

    def test_a_folder_of_the_user_is_not_touched(self, scenes, tmp_path):
        """A folder with other files raises FileExistsError and stays as it is."""
        (tmp_path / "mine.txt").write_text("mine")
        with pytest.raises(FileExistsError):
            scenes.make_scenes(str(tmp_path), 1, 1, size=64)
        assert {"mine.txt": b"mine"} == contents(tmp_path)

    def test_a_crash_leaves_nothing(self, scenes, tmp_path, monkeypatch):
        """If writing fails, there is neither the folder nor a temporary one."""

        def write(folder, split, info, original=scenes.write_scenes):
            if split == "test":
                raise OSError("disk full")
            original(folder, split, info)

        monkeypatch.setattr(scenes, "write_scenes", write)
        with pytest.raises(OSError, match="disk full"):
            scenes.make_scenes(str(tmp_path / "scenes"), 1, 1, size=64)
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize("split", ["train", "test"])
    def test_pycocotools_reads_the_annotations(self, scenes, tmp_path, split):
        """Boxes and areas are those of the masks, masks do not intersect, and each scene has 1 to 6 digits."""
        coco = COCO(scenes.make_scenes(str(tmp_path), 8, 8) + f"/{split}.json")
        assert [str(digit) for digit in range(10)] == [coco.cats[i]["name"] for i in sorted(coco.cats)]
        assert 8 == len(coco.imgs)
        for number, entry in coco.imgs.items():
            assert (128, 128, 3) == cv2.imread(str(tmp_path / split / entry["file_name"])).shape
            rows = coco.imgToAnns[number]
            masks = np.array([coco.annToMask(row) for row in rows])
            assert 1 <= len(rows) <= 6
            assert list(range(len(rows))) == [row["order"] for row in rows]
            assert 1 == masks.sum(axis=0).max()
            for row, mask in zip(rows, masks):
                (top, bottom), (left, right) = (np.flatnonzero(mask.any(axis))[[0, -1]] for axis in (1, 0))
                assert [left, top, right - left + 1, bottom - top + 1] == row["bbox"]
                assert mask.sum() == row["area"]

    def test_splits_have_other_photos(self, scenes):
        """No photograph is in both splits."""
        assert not set(scenes.TRAIN_PHOTOS) & set(scenes.TEST_PHOTOS)

    def test_reading_order(self, scenes):
        """Rows are read from top to bottom, and boxes in a row from left to right, also if a row is not level."""
        boxes = [(60, 12, 20, 20), (0, 52, 30, 30), (10, 5, 20, 20), (35, 0, 20, 20), (40, 50, 20, 20)]
        assert [2, 3, 0, 1, 4] == scenes.reading_order(boxes)
        assert [] == scenes.reading_order([])


class TestSegmentation:
    def test_mean_iou(self, segment, monkeypatch, tmp_path):
        """The mean is over classes that occur; batches are added; the first batch is drawn."""
        monkeypatch.setattr(segment.logger, "get_logger_dir", lambda: str(tmp_path))
        image, label = np.zeros([2, 8, 8, 3], np.uint8), np.zeros([2, 8, 8], np.int32)
        inferencer = segment.MeanIoU()
        for _ in range(2):  # the second round starts from nothing
            inferencer._before_inference()
            for shared, total in [([2, 1, 0], [5, 4, 0]), ([1, 4, 0], [3, 8, 0])]:
                inferencer._on_fetches([np.float32([shared, total]), image, label, label])
            numbers = inferencer._after_inference()
        assert (3 / 5 + 5 / 7) / 2 == pytest.approx(numbers["val_mean_iou"])
        assert cv2.imread(str(tmp_path / "predictions.png")).shape[0] >= 3 * 8

    def test_any_coco_data_set(self, segment, tmp_path):
        """Categories with gaps become classes 1, 2, ...; small objects are in front; images are resized to squares."""
        cv2.imwrite(str(tmp_path / "x.png"), np.full([32, 64, 3], 200, np.uint8))

        def square(number, category, side):
            return {
                "id": number,
                "image_id": 7,
                "category_id": category,
                "bbox": [0, 0, side, side],
                "area": side * side,
                "segmentation": [[0, 0, side, 0, side, side, 0, side]],
                "iscrowd": 0,
            }

        content = {
            "images": [{"id": 7, "file_name": "x.png", "height": 32, "width": 64}],
            "annotations": [square(1, 90, 8), square(2, 3, 16)],
            "categories": [{"id": 3, "name": "cat"}, {"id": 90, "name": "dog"}],
        }
        (tmp_path / "x.json").write_text(json.dumps(content))
        data, num_classes = segment.get_data(str(tmp_path), str(tmp_path / "x.json"), size=32, shuffle=False)
        data.reset_state()
        ((image, label),) = list(data)
        expected = np.zeros([32, 32], int)  # the width is halved
        expected[:16, :8] = 1
        expected[:8, :4] = 2
        assert 3 == num_classes
        assert (32, 32, 3) == image.shape
        np.testing.assert_array_equal(expected, label)

    @pytest.mark.slow
    def test_two_steps(self, run_example, tmp_path):
        """Two steps write statistics, a checkpoint and a picture; --resume continues with the second epoch."""
        run_example("segment_scenes.py", [*TWO_STEPS, "--max-epoch", "1"], tmp_path)
        run_example("segment_scenes.py", [*TWO_STEPS, "--max-epoch", "2", "--resume"], tmp_path)
        log = tmp_path / "train_log" / "segment_scenes"
        rows = read_stats(log)
        assert [2, 4] == [row["global_step"] for row in rows]
        assert all(0 <= row["val_mean_iou"] <= 1 for row in rows)
        assert (log / "model-4.index").exists()
        assert cv2.imread(str(log / "predictions.png")).shape[0] >= 3 * 64
