"""Tests of the detector's data, in the formats of COCO and VOC, and of the evaluation of detections."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("pycocotools")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")

from tensorpack_lite.dataflow import imgaug


class TestData:
    def test_transformed_boxes(self, load):
        """A flipped box is mirrored, keeps x1 < x2, and ends at the border."""
        flip = imgaug.FlipTransform(20, 30)
        boxes = load("augment").transform_boxes(np.float32([[-2, 3, 10, 8]]), flip, (20, 30, 3))
        np.testing.assert_array_equal([[20, 3, 30, 8]], boxes)

    def test_resizing(self, load):
        """The shorter edge has the length, unless the longer one would be too long."""
        for shape, expected in [((50, 100), (64, 128)), ((100, 50), (128, 64)), ((20, 200), (15, 150))]:
            resized = load("augment").ResizeToFit(64, 64, 150).augment(np.zeros([*shape, 3], "uint8"))
            assert (*expected, 3) == resized.shape

    def test_batches_are_padded(self, load):
        """Images are padded with the mean color at the right and at the bottom, and objects with zeros."""
        images = [np.zeros([4, 6, 3], "uint8"), np.zeros([5, 3, 3], "uint8")]
        boxes, labels = (
            [np.ones([2, 4], "float32"), np.ones([0, 4], "float32")],
            [np.int32([1, 2]), np.int32([])],
        )
        image, box, label = load("batches").pad_batch([images, boxes, labels])
        assert ((2, 5, 6, 3), np.uint8) == (image.shape, image.dtype)
        assert [(4 * 6, 124), (5 * 3, 124)] == [((x[:, :, 0] == 0).sum(), x[-1, -1, 0]) for x in image]
        np.testing.assert_array_equal([[1, 2], [0, 0]], label)
        assert [8, 0] == box.sum(axis=(1, 2)).tolist()
        assert (1, 1, 4) == load("batches").pad_batch([images[:1], boxes[1:], labels[1:]])[1].shape

    def test_augmented_scenes(self, load, scenes):
        """Boxes follow the size of the image, masks fill their boxes, and labels are positions in the categories."""
        coco = load("coco")
        train, test = coco.load_splits(str(scenes))
        assert (12, 4) == (len(train.images), len(test.images))
        settings = coco.with_classes(load("config").SCENES, train.coco)._replace(masks=True, short_edge=(96, 96))
        image = train.images[0]
        pixels, boxes, labels, masks = load("augment").Augment(train, settings)([image])
        rows = train.coco.imgToAnns[image["id"]]
        assert (96, 96, 3) == pixels.shape
        expected = np.array([row["bbox"] for row in rows]) * 1.5
        np.testing.assert_allclose(expected[:, :2], boxes[:, :2], atol=1e-3)
        np.testing.assert_allclose(expected[:, 2:], boxes[:, 2:] - boxes[:, :2], atol=1e-3)
        assert [str(row["category_id"] - 1) for row in rows] == [settings.classes[i - 1] for i in labels]
        assert (len(rows), 56, 56) == masks.shape
        areas = masks.mean(axis=(1, 2)) * (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        np.testing.assert_allclose([2.25 * row["area"] for row in rows], areas, rtol=0.1)

    def test_a_json_file_is_divided(self, load, scenes):
        """Every tenth image of a JSON file is held out."""
        train, test = load("coco").load_splits(str(scenes / "train.json"))
        assert ([1, 11], 10) == ([image["id"] for image in test.images], len(train.images))

    def test_missing_files(self, load, scenes, tmp_path):
        """Without annotations or images, the error names the folder."""
        coco = load("coco")
        with pytest.raises(FileNotFoundError, match="has no annotations"):
            coco.load_splits(str(tmp_path))
        (tmp_path / "train.json").write_bytes((scenes / "train.json").read_bytes())
        with pytest.raises(FileNotFoundError, match="has no images"):
            coco.load_split(tmp_path / "train.json")
        with pytest.raises(OSError, match="cannot read"):
            coco.read_image(str(tmp_path / "no.jpg"))

    @pytest.mark.parametrize(
        ("kind", "change", "message"),
        [
            ("images", {"file_name": None}, "entry 0 of 'images', .*\"id\".* has no file_name"),
            ("annotations", {"bbox": None}, "entry 0 of 'annotations', .*\"id\": 77.* has no bbox"),
            (
                "annotations",
                {"image_id": 99},
                "annotation 77 of image 'unknown': its image_id 99 is not among",
            ),
            (
                "annotations",
                {"category_id": 99},
                "annotation 77 of image '.*': its category_id 99 is not among",
            ),
            (
                "annotations",
                {"bbox": [1, 2, "3", 4]},
                "annotation 77 of image '.*': its bbox is .*expected .x, y",
            ),
            (
                "annotations",
                {"bbox": [900, 2, 3, 4]},
                "annotation 77 of image '.*': its bbox .* is outside of",
            ),
        ],
    )
    def test_wrong_annotations(self, load, scenes, tmp_path, kind, change, message):
        """An error in the annotations names the image or the annotation."""
        content = json.loads((scenes / "train.json").read_text())
        content["annotations"][0]["id"] = 77
        content[kind][0].update(change)
        content[kind][0] = {key: value for key, value in content[kind][0].items() if value is not None}
        (tmp_path / "train.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=message):
            load("coco").read_annotations(tmp_path / "train.json")

    def test_another_size(self, load, scenes):
        """An image whose size is not that of its annotations, such as one that EXIF turns, raises an error with its path."""
        coco = load("coco")
        train, _ = coco.load_splits(str(scenes))
        image = dict(train.images[0], width=train.images[0]["width"] + 1)
        augment = load("augment").Augment(train, coco.with_classes(load("config").SCENES, train.coco))
        with pytest.raises(ValueError, match="read_annotated: .* has 64 x 64 pixels, .* for 65 x 64"):
            augment([image])

    def test_a_wrong_mask(self, load, scenes):
        """A segmentation that cannot be read raises an error with the annotation and the image."""
        coco = load("coco")
        train, _ = coco.load_splits(str(scenes))
        settings = coco.with_classes(load("config").SCENES, train.coco)._replace(masks=True)
        image = train.images[0]
        row = train.coco.imgToAnns[image["id"]][0]
        del row["segmentation"]
        with pytest.raises(ValueError, match=f"annotation {row['id']} of .*{image['file_name']} has no valid"):
            load("augment").Augment(train, settings)([image])

    def test_coco_folder(self, load, scenes, tmp_path):
        """The layout of COCO's archives is found."""
        (tmp_path / "annotations").mkdir()
        for split, name in [("train", "train2017"), ("test", "val2017")]:
            (tmp_path / name).symlink_to(scenes / split)
            content = (scenes / f"{split}.json").read_bytes()
            (tmp_path / "annotations" / f"instances_{name}.json").write_bytes(content)
        assert [12, 4] == [len(split.images) for split in load("coco").load_splits(str(tmp_path))]

    def test_voc(self, load, tmp_path):
        """Pixels of VOC count from 1 and include the last one; difficult objects become crowds."""
        for name in ("Annotations", "ImageSets/Main"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "ImageSets" / "Main" / "test.txt").write_text("000001\n")
        (tmp_path / "Annotations" / "000001.xml").write_text(
            "<annotation><filename>000001.jpg</filename><size><width>50</width><height>40</height></size>"
            "<object><name>cat</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>11</ymin><xmax>10</xmax>"
            "<ymax>30</ymax></bndbox></object></annotation>"
        )
        content = load("voc").voc_to_coco(tmp_path, "test")
        image = {"id": 1, "file_name": "JPEGImages/000001.jpg", "height": 40, "width": 50}
        assert [image] == content["images"]
        (row,) = content["annotations"]
        assert ([0, 10, 10, 20], 200, 1, 8) == (row["bbox"], row["area"], row["iscrowd"], row["category_id"])
        assert 20 == len(content["categories"])


class TestEvaluation:
    def truth(self, load, scenes):
        """Return the test split, its settings, and the annotations as detections."""
        coco = load("coco")
        split = coco.load_splits(str(scenes))[1]
        settings = coco.with_classes(load("config").SCENES, split.coco)
        results = []
        for image in split.images:
            found = []
            for row in split.coco.imgToAnns[image["id"]]:
                x, y, w, h = row["bbox"]
                label = settings.category_ids.index(row["category_id"]) + 1
                mask = split.coco.annToMask(row).astype(bool)
                found.append(load("detect").Detection(np.float32([x, y, x + w, y + h]), 0.9, label, mask))
            results += load("evaluate").to_coco(image["id"], found, settings)
        return split, results

    def test_perfect_detections(self, load, scenes):
        """The annotations themselves have an average precision of 1, also after a round trip through JSON."""
        split, results = self.truth(load, scenes)
        figures = load("evaluate").average_precision(split, json.loads(json.dumps(results)), masks=True)
        assert {f"{kind}_{name}" for kind in ("box", "mask") for name in ("AP", "AP50", "AP75")} == set(figures)
        np.testing.assert_allclose(1.0, list(figures.values()), atol=1e-6)

    @pytest.mark.slow
    def test_shifted_boxes(self, load, scenes):
        """Boxes that are off by a fifth of their width have an IoU of 2 / 3: AP counts the thresholds 0.5 to 0.65."""
        split, results = self.truth(load, scenes)
        for row in results:
            row["bbox"][0] += row["bbox"][2] / 5
        figures = load("evaluate").average_precision(split, results, masks=False)
        np.testing.assert_allclose([1, 0, 0.4], [figures[k] for k in ("box_AP50", "box_AP75", "box_AP")], atol=1e-6)

    def test_no_detections(self, load, scenes):
        """Without detections, the average precision is 0."""
        split, _ = self.truth(load, scenes)
        assert {0.0} == set(load("evaluate").average_precision(split, [], masks=True).values())

    def test_detections_in_the_original_image(self, load, config):
        """Boxes and masks are scaled from the resized image to the original one; padding is omitted."""
        config = config._replace(short_edge=(64, 64))

        def predictor(image):
            assert (1, 64, 128, 3) == image.shape
            boxes = np.float32([[[64, 32, 200, 64], [0, 0, 0, 0]]])
            return boxes, np.float32([[0.7, 0]]), np.int32([[2, 0]]), np.ones([1, 2, 28, 28], "float32")

        (found,) = load("detect").detect(predictor, np.zeros([32, 64, 3], "uint8"), config)
        assert ([32, 16, 64, 32], 2) == (found.box.tolist(), found.label)
        assert (16 * 32, True) == (found.mask.sum(), found.mask[16:, 32:].all())
        picture = load("detect").draw(np.zeros([32, 64, 3], "uint8"), [found], config, scale=2)
        assert (64, 128, 3) == picture.shape
        assert picture[50, 100].any()
        assert not picture[20:30, :60].any()

    def test_the_best_detection_is_in_front(self, load, config):
        """Where boxes are equal, the box and the label of the best detection are seen: it is drawn last."""
        module = load("detect")
        image, box = np.zeros([80, 80, 3], "uint8"), np.float32([10, 30, 70, 70])
        best, other = (module.Detection(box, score, 1, None) for score in (0.9, 0.6))
        alone = module.draw(image, [best], config)
        np.testing.assert_array_equal(alone[30:], module.draw(image, [best, other], config)[30:])
