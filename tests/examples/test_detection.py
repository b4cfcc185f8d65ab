"""Tests of examples/detection: each function against NumPy or a closed form, then the programs for two steps."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("cv2")
pytest.importorskip("pycocotools")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")

import cv2

import tensorpack_lite
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import imgaug
from tensorpack_lite.tfutils.tower.context import TrainTowerContext

# pycocotools with NumPy 2

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "detection"
TWO_STEPS = ["--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", "log", "--data", "scenes"]
BOXES = np.float32([[0, 0, 10, 20], [5, 5, 15, 25], [30, 30, 31, 31], [2, 3, 2, 3]])


def evaluated(function, *args):
    """Call a function of tensors in a new graph; return the values of its results."""
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(function(*[tf.constant(x) if isinstance(x, np.ndarray) else x for x in args]))


@pytest.fixture
def load(load_example):
    """Return a function that imports a module of the example."""
    return lambda name: load_example(f"detection/{name}.py")


@pytest.fixture
def config(load):
    """The settings for scenes, with two classes."""
    return load("config").SCENES._replace(classes=("a", "b"), category_ids=(3, 7))


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """A folder with 12 training scenes and 4 test scenes."""
    sys.path.insert(0, str(EXAMPLE.parent / "data"))
    try:
        from scenes import make_scenes
    finally:
        sys.path.pop(0)
    return Path(make_scenes(str(tmp_path_factory.mktemp("data") / "scenes"), 12, 4, 64))


def iou_of_two(a, b):
    """Return the intersection over union of two boxes, by counting cells of 1/4 pixel."""

    def cells(box):
        grid = np.zeros([160, 160], bool)
        x1, y1, x2, y2 = (int(4 * x) for x in box)
        grid[y1:y2, x1:x2] = True
        return grid

    a, b = cells(a), cells(b)
    return (a & b).sum() / max((a | b).sum(), 1)


class TestBoxes:
    def test_iou(self, load):
        """The IoU equals that of counted cells, and an empty box has the IoU 0, also with itself."""
        expected = [[iou_of_two(a, b) for b in BOXES] for a in BOXES]
        boxes = load("boxes")
        np.testing.assert_allclose(expected, evaluated(boxes.pairwise_iou, BOXES, BOXES), atol=1e-6)
        batch = evaluated(boxes.pairwise_iou, BOXES[None, :2], np.stack([BOXES, BOXES[::-1]]))
        np.testing.assert_allclose(expected[:2], batch[0], atol=1e-6)
        np.testing.assert_allclose(np.array(expected)[:2, ::-1], batch[1], atol=1e-6)

    def test_encode(self, load):
        """A box shifted by half of its width and twice as high has the targets 0.5 and log 2, times the weights."""
        box, anchor = np.float32([[15, -10, 25, 30]]), np.float32([[10, 0, 20, 20]])
        boxes = load("boxes")
        np.testing.assert_allclose([[0.5, 0, 0, np.log(2)]], evaluated(boxes.encode, box, anchor), atol=1e-6)
        weighted = evaluated(boxes.encode, box, anchor, (10.0, 5.0))
        np.testing.assert_allclose([[5, 0, 0, 5 * np.log(2)]], weighted, atol=1e-5)

    def test_decode_inverts_encode(self, load):
        """Decoding the targets of random boxes returns the boxes, for any weights."""
        rng = np.random.RandomState(0)
        corner, size = rng.uniform(0, 50, [2, 3, 7, 2]), rng.uniform(1, 40, [2, 3, 7, 2])
        box, anchor = np.concatenate([corner, corner + size], axis=-1).astype("float32")
        boxes = load("boxes")
        again = evaluated(
            lambda a, b: boxes.decode(boxes.encode(a, b, (20.0, 10.0)), b, (20.0, 10.0)), box, anchor
        )
        np.testing.assert_allclose(box, again, atol=1e-3)

    def test_decode_is_bounded(self, load):
        """A huge regression does not overflow: the size grows at most 62.5 times."""
        box = evaluated(load("boxes").decode, np.float32([[0, 0, 1e4, 1e4]]), np.float32([[0, 0, 2, 2]]))
        np.testing.assert_allclose(125, box[0, 2] - box[0, 0], rtol=1e-4)

    def test_clip(self, load):
        """Boxes end at the borders of the image."""
        clipped = evaluated(load("boxes").clip, np.float32([[-3, 5, 50, 70]]), 30, 40)
        np.testing.assert_array_equal([[0, 5, 40, 30]], clipped)

    def test_anchors(self, load):
        """Anchors follow each other by ratio, column and row, around the centers of cells, with one area."""
        anchors = evaluated(lambda: load("boxes").make_anchors(2, 3, 8, 16, (0.25, 1.0)))
        assert (12, 4) == anchors.shape
        expected = []
        for row in range(2):
            for column in range(3):
                x, y = 8 * column + 4, 8 * row + 4
                expected += [[x - 16, y - 4, x + 16, y + 4], [x - 8, y - 8, x + 8, y + 8]]
        np.testing.assert_allclose(expected, anchors)


class TestProposals:
    GT = np.float32([[[0, 0, 16, 16], [40, 40, 60, 60], [0, 0, 0, 0]]])

    def test_matching(self, load):
        """An anchor is positive above 0.7, or as the best one of an object; negative below 0.3; otherwise ignored."""
        anchors = np.float32([[0, 0, 16, 16], [0, 0, 16, 8], [100, 100, 116, 116], [44, 44, 70, 70]])
        positive, negative, index = evaluated(
            load("rpn").match_anchors, anchors, self.GT, np.int32([[1, 2, 0]])
        )
        np.testing.assert_array_equal([[True, False, False, True]], positive)
        np.testing.assert_array_equal([[False, False, True, False]], negative)
        assert [0, 1] == [index[0, 0], index[0, 3]]

    def test_crowds(self, load):
        """Anchors in a crowd are neither positive nor negative."""
        anchors = np.float32([[42, 42, 46, 46], [100, 100, 116, 116]])
        positive, negative, _ = evaluated(load("rpn").match_anchors, anchors, self.GT, np.int32([[1, -1, 0]]))
        np.testing.assert_array_equal([[False, False]], positive)
        np.testing.assert_array_equal([[False, True]], negative)

    def test_sampling(self, load):
        """There are at most as many samples as requested, all are eligible, and different calls choose others."""
        eligible = np.zeros([3, 50], bool)
        eligible[0, :40] = eligible[1, 10:13] = True
        arguments = eligible, np.int32([7, 7, 7]), 10
        samples = np.array([evaluated(load("rpn").sample, *arguments) for _ in range(4)])
        assert [[7, 3, 0]] * 4 == samples.sum(axis=2).tolist()
        assert not (samples & ~eligible).any()
        assert len({sample.tobytes() for sample in samples}) > 1

    def test_negatives_fill_the_sample(self, load):
        """If there are few positive elements, negative ones take their places."""
        positive = np.arange(50)[None] < np.int32([[3], [30], [0]])
        a, b = evaluated(load("rpn").sample_both, positive, ~positive, 16, 0.25)
        assert [3, 4, 0] == a.sum(axis=1).tolist()
        assert [13, 12, 16] == b.sum(axis=1).tolist()

    def test_smooth_l1(self, load):
        """The loss is x ** 2 / (2 * limit) near 0, and |x| - limit / 2 beyond the limit."""
        loss = evaluated(load("rpn").smooth_l1, np.float32([[0.5, 0], [-3, 0], [0.5, -3]]), 1.0)
        np.testing.assert_allclose([0.125, 2.5, 2.625], loss)

    def test_suppression_within_levels(self, load, config):
        """Equal boxes of one level suppress each other, those of two levels do not, and the rest has the score 0."""
        anchors = [np.float32([[0, 0, 20, 20], [1, 0, 20, 20]]), np.float32([[0, 0, 20, 20]])]
        logits = [np.float32([[0, 2]]), np.float32([[1]])]
        deltas = [np.zeros([1, 2, 4], "float32"), np.zeros([1, 1, 4], "float32")]
        config = config._replace(proposals=5)

        def propose():
            lists = ([tf.constant(x) for x in part] for part in (logits, deltas, anchors))
            return load("rpn").get_proposals(*lists, (15, 30), config)

        boxes, scores = evaluated(propose)
        np.testing.assert_allclose([[0, 0, 20, 15]], boxes[0, 1:2], atol=1e-4)
        np.testing.assert_allclose([[1, 0, 20, 15]], boxes[0, :1], atol=1e-4)
        np.testing.assert_allclose([[0.880797, 0.731059, 0, 0, 0]], scores, atol=1e-5)


def interpolate(feature, x, y):
    """Return the value of a map [H, W] at a point, whose cells have their centers at 0.5, 1.5, ..."""
    height, width = feature.shape
    x, y = np.clip(x - 0.5, 0, width - 1), np.clip(y - 0.5, 0, height - 1)
    j, i = int(min(x, width - 2)), int(min(y, height - 2))
    x, y = x - j, y - i
    top = feature[i, j] * (1 - x) + feature[i, j + 1] * x
    bottom = feature[i + 1, j] * (1 - x) + feature[i + 1, j + 1] * x
    return top * (1 - y) + bottom * y


def reference_roi_align(feature, box, size):
    """RoIAlign of one box on one channel, sample by sample."""
    x1, y1, x2, y2 = box
    pooled = np.zeros([size, size])
    for row in range(size):
        for column in range(size):
            for v in (0.25, 0.75):
                for u in (0.25, 0.75):
                    x, y = x1 + (column + u) * (x2 - x1) / size, y1 + (row + v) * (y2 - y1) / size
                    pooled[row, column] += interpolate(feature, x, y) / 4
    return pooled


class TestRoIs:
    def test_roi_align(self, load):
        """The features equal those of a reference, inside of the map and at its borders."""
        rng = np.random.RandomState(1)
        feature = rng.rand(2, 6, 8, 3).astype("float32")
        boxes = np.float32([[1.3, 0.7, 6.1, 5.2], [0, 0, 8, 6], [6.9, 5.1, 8, 6], [2.2, 2.2, 2.4, 2.9]])
        index = np.int32([0, 1, 1, 0])
        pooled = evaluated(load("roi").roi_align, feature, boxes, index, 3)
        for k in range(4):
            for channel in range(3):
                expected = reference_roi_align(feature[index[k], :, :, channel], boxes[k], 3)
                np.testing.assert_allclose(expected, pooled[k, :, :, channel], atol=1e-5)

    def test_roi_align_of_a_ramp(self, load):
        """Where the map is the coordinate x, the features are the centers of the bins."""
        ramp = np.tile(np.arange(10, dtype="float32") + 0.5, [1, 10, 1])[..., None]
        pooled = evaluated(load("roi").roi_align, ramp, np.float32([[1, 2, 7, 8]]), np.int32([0]), 3)
        np.testing.assert_allclose([2, 4, 6], pooled[0, 1, :, 0], atol=1e-5)

    def test_levels(self, load, config):
        """RoIs of the canonical size use level 4; half of it uses level 3; there is no level beyond the last one."""
        sides = np.float32([5, 56, 111, 112, 223, 224, 448, 2000])
        boxes = np.stack([0 * sides, 0 * sides, sides, sides], axis=1)
        coco = config._replace(levels=(2, 3, 4, 5, 6), canonical_size=224)
        levels = evaluated(load("roi").choose_level, boxes, coco) + 2
        assert [2, 2, 2, 3, 3, 4, 5, 5] == levels.tolist()

    def test_pooling_from_several_levels(self, load, config):
        """Each box gets the features of its level, in the order of the boxes."""
        config = config._replace(levels=(2, 3), canonical_size=64, fpn_channels=1)
        features = [np.full([1, 16, 16, 1], 2.0, "float32"), np.full([1, 8, 8, 1], 3.0, "float32")]
        boxes = np.float32([[0, 0, 40, 40], [0, 0, 8, 8], [10, 10, 60, 60]])

        def pool(boxes, image_index):
            return load("roi").pool([tf.constant(x) for x in features], boxes, image_index, 2, config)

        np.testing.assert_allclose([3, 2, 3], evaluated(pool, boxes, np.int32([0, 0, 0]))[:, 1, 1, 0])

    def test_sampled_rois(self, load, config):
        """Positive RoIs are the first ones; a missing RoI has the weight 0; padding is never chosen."""
        proposals = np.float32([[[0, 0, 10, 10], [50, 50, 70, 70], [0, 0, 0, 0]]])
        gt_boxes, gt_labels = np.float32([[[0, 0, 10, 9], [0, 0, 0, 0]]]), np.int32([[2, 0]])
        config = config._replace(roi_batch=4, roi_positive=0.5)
        rois, targets = evaluated(
            load("roi").sample_rois, proposals, np.float32([[0.9, 0.8, 0]]), gt_boxes, gt_labels, config
        )
        assert [[2, 2, 0, 0]] == targets.label.tolist()
        assert [[1, 1, 1, 0]] == targets.weight.tolist()
        assert {(0, 0, 10, 10), (0, 0, 10, 9)} == {tuple(box) for box in rois[0, :2].tolist()}
        np.testing.assert_array_equal(proposals[0, 1], rois[0, 2])
        np.testing.assert_array_equal(gt_boxes[:, :1].repeat(2, axis=1), targets.box[:, :2])

    def test_stages_have_stricter_thresholds(self, load):
        """A RoI with an IoU of 0.6 is positive at 0.5 and background at 0.7."""
        match = load("roi").match_rois
        args = np.float32([[[0, 0, 10, 6]]]), np.float32([[[0, 0, 10, 10]]]), np.int32([[5]])
        assert [5, 0] == [evaluated(match, *args, iou).label[0, 0] for iou in (0.5, 0.7)]

    def test_box_losses(self, load):
        """The losses equal those of NumPy, and RoIs with the weight 0 do not count."""
        roi = load("roi")
        logits = np.float32([[1, 2, 0], [0.5, 0, 0], [9, 9, 0]])
        rois = np.float32([[[0, 0, 10, 10], [20, 20, 30, 30], [0, 0, 1, 1]]])
        target = np.float32([[[1, 0, 11, 10], [0, 0, 1, 1], [0, 0, 1, 1]]])
        targets = roi.Targets(np.int32([[1, 0, 2]]), target, np.int32([[0, 0, 0]]), np.float32([[1, 1, 0]]))

        def losses():
            tensors = roi.Targets(*[tf.constant(x) for x in targets])
            return roi.box_losses(
                tf.constant(logits), tf.zeros([3, 4]), tf.constant(rois), tensors, (10.0, 5.0)
            )

        softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        expected = [-(np.log(softmax[0, 1]) + np.log(softmax[1, 0])) / 2, 0.5 * 1.0**2 / 2]
        np.testing.assert_allclose(expected, evaluated(losses), rtol=1e-5)


class TestMasks:
    def test_targets(self, load):
        """Inside its own box an object has its mask; in a RoI that starts in the middle it has the half of it."""
        mask = np.zeros([1, 56, 56], "float32")
        mask[0, :, 28:] = 1
        box = np.float32([[10, 20, 30, 60]])
        rois = np.concatenate([box, np.float32([[20, 20, 40, 60]])])
        targets = evaluated(load("roi").mask_targets, rois, box.repeat(2, axis=0), mask, np.int32([0, 0]), 4)
        np.testing.assert_array_equal([[0, 0, 1, 1]] * 4, targets[0])
        np.testing.assert_array_equal([[1, 1, 0, 0]] * 4, targets[1])

    def test_of_class(self, load):
        """Each mask is that of the label, which counts from 1."""
        masks = np.random.RandomState(0).rand(2, 3, 3, 4).astype("float32")
        chosen = evaluated(load("roi").of_class, masks, np.int32([4, 1]))
        np.testing.assert_array_equal(np.stack([masks[0, :, :, 3], masks[1, :, :, 0]]), chosen)

    def test_cropping_and_pasting(self, load):
        """A mask that is cropped to its box and pasted again is nearly the same, also for boxes between pixels."""
        image = np.zeros([60, 80], "uint8")
        cv2.ellipse(image, (40, 30), (25, 15), 30, 0, 360, 255, -1)
        rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
        for margin in (0, 0.5, 2.3):
            box = np.float32([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
            box += np.float32([-margin, -margin, margin, margin])
            cropped = load("coco").crop_mask(image, box)
            assert {0, 1} == set(np.unique(cropped))
            pasted = load("evaluate").paste_mask(cropped.astype("float32"), box, 60, 80)
            both, either = (pasted & (image > 0)).sum(), (pasted | (image > 0)).sum()
            assert both / either > 0.97

    def test_pasting_fills_the_box(self, load):
        """A mask of ones covers exactly the pixels of its box, and is clipped at the border of the image."""
        pasted = load("evaluate").paste_mask(np.ones([28, 28], "float32"), np.float32([3, 4, 13, 30]), 20, 20)
        expected = np.zeros([20, 20], bool)
        expected[4:20, 3:13] = True
        np.testing.assert_array_equal(expected, pasted)


class TestData:
    def test_transformed_boxes(self, load):
        """A flipped box is mirrored, keeps x1 < x2, and ends at the border."""
        flip = imgaug.FlipTransform(20, 30)
        boxes = load("coco").transform_boxes(np.float32([[-2, 3, 10, 8]]), flip, (20, 30, 3))
        np.testing.assert_array_equal([[20, 3, 30, 8]], boxes)

    def test_resizing(self, load):
        """The shorter edge has the length, unless the longer one would be too long."""
        coco = load("coco")
        for shape, expected in [((50, 100), (64, 128)), ((100, 50), (128, 64)), ((20, 200), (15, 150))]:
            resized = coco.ResizeToFit(64, 64, 150).augment(np.zeros([*shape, 3], "uint8"))
            assert (*expected, 3) == resized.shape

    def test_batches_are_padded(self, load):
        """Images are padded with the mean color at the right and at the bottom, and objects with zeros."""
        images = [np.zeros([4, 6, 3], "uint8"), np.zeros([5, 3, 3], "uint8")]
        boxes, labels = (
            [np.ones([2, 4], "float32"), np.ones([0, 4], "float32")],
            [np.int32([1, 2]), np.int32([])],
        )
        image, box, label = load("coco").pad_batch([images, boxes, labels])
        assert ((2, 5, 6, 3), np.uint8) == (image.shape, image.dtype)
        assert [(4 * 6, 124), (5 * 3, 124)] == [((x[:, :, 0] == 0).sum(), x[-1, -1, 0]) for x in image]
        np.testing.assert_array_equal([[1, 2], [0, 0]], label)
        assert [8, 0] == box.sum(axis=(1, 2)).tolist()
        assert (1, 1, 4) == load("coco").pad_batch([images[:1], boxes[1:], labels[1:]])[1].shape

    def test_augmented_scenes(self, load, scenes):
        """Boxes follow the size of the image, masks fill their boxes, and labels are positions in the categories."""
        coco = load("coco")
        train, test = coco.load_splits(str(scenes))
        assert (12, 4) == (len(train.images), len(test.images))
        settings = coco.with_classes(load("config").SCENES, train.coco)._replace(
            masks=True, short_edge=(96, 96)
        )
        image = train.images[0]
        pixels, boxes, labels, masks = coco.Augment(train, settings)([image])
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
        coco, evaluate = load("coco"), load("evaluate")
        split = coco.load_splits(str(scenes))[1]
        settings = coco.with_classes(load("config").SCENES, split.coco)
        results = []
        for image in split.images:
            found = []
            for row in split.coco.imgToAnns[image["id"]]:
                x, y, w, h = row["bbox"]
                label = settings.category_ids.index(row["category_id"]) + 1
                mask = split.coco.annToMask(row).astype(bool)
                found.append(evaluate.Detection(np.float32([x, y, x + w, y + h]), 0.9, label, mask))
            results += evaluate.to_coco(image["id"], found, settings)
        return split, results

    def test_perfect_detections(self, load, scenes):
        """The annotations themselves have an average precision of 1, also after a round trip through JSON."""
        split, results = self.truth(load, scenes)
        figures = load("evaluate").average_precision(split, json.loads(json.dumps(results)), masks=True)
        assert {f"{kind}_{name}" for kind in ("box", "mask") for name in ("AP", "AP50", "AP75")} == set(
            figures
        )
        np.testing.assert_allclose(1.0, list(figures.values()), atol=1e-6)

    def test_shifted_boxes(self, load, scenes):
        """Boxes that are off by a fifth of their width have an IoU of 2 / 3: AP counts the thresholds 0.5 to 0.65."""
        split, results = self.truth(load, scenes)
        for row in results:
            row["bbox"][0] += row["bbox"][2] / 5
        figures = load("evaluate").average_precision(split, results, masks=False)
        np.testing.assert_allclose(
            [1, 0, 0.4], [figures[k] for k in ("box_AP50", "box_AP75", "box_AP")], atol=1e-6
        )

    def test_no_detections(self, load, scenes):
        """Without detections, the average precision is 0."""
        split, _ = self.truth(load, scenes)
        assert {0.0} == set(load("evaluate").average_precision(split, [], masks=True).values())

    def test_detections_in_the_original_image(self, load, config):
        """Boxes and masks are scaled from the resized image to the original one; padding is left out."""
        config = config._replace(short_edge=(64, 64))

        def predictor(image):
            assert (1, 64, 128, 3) == image.shape
            boxes = np.float32([[[64, 32, 200, 64], [0, 0, 0, 0]]])
            return boxes, np.float32([[0.7, 0]]), np.int32([[2, 0]]), np.ones([1, 2, 28, 28], "float32")

        (found,) = load("evaluate").detect(predictor, np.zeros([32, 64, 3], "uint8"), config)
        assert ([32, 16, 64, 32], 2) == (found.box.tolist(), found.label)
        assert (16 * 32, True) == (found.mask.sum(), found.mask[16:, 32:].all())
        picture = load("evaluate").draw(np.zeros([32, 64, 3], "uint8"), [found], config, scale=2)
        assert (64, 128, 3) == picture.shape
        assert picture[50, 100].any()
        assert not picture[20:30, :60].any()


class TestModel:
    @pytest.mark.slow
    @pytest.mark.any_tensorflow
    @pytest.mark.parametrize("options", [{}, {"cascade": True, "norm": "group", "depth": 50, "width": 8}])
    def test_cost_without_objects(self, load, config, options):
        """A batch without objects has a finite cost and finite gradients."""
        config = config._replace(masks=True, fpn_channels=16, mask_channels=8, **options)
        model = load("model").Model(config)
        with tf.Graph().as_default(), tf.Session() as session:
            rng = np.random.RandomState(0)
            image = tf.constant(rng.randint(0, 256, [2, 70, 90, 3]).astype("uint8"))
            with TrainTowerContext(""):
                masks = tf.zeros([2, 1, 56, 56], tf.uint8)
                cost = model.build_graph(image, tf.zeros([2, 1, 4]), tf.zeros([2, 1], tf.int32), masks)
            gradients = [g for g in tf.gradients(cost, tf.trainable_variables()) if g is not None]
            session.run(tf.global_variables_initializer())
            values = session.run([cost, *gradients])
        assert all(np.isfinite(value).all() for value in values)

    def test_learning_rate(self, load, config):
        """The rate is proportional to the batch, rises during the warmup, and ends at 0."""
        model = load("model").Model(config._replace(rate=1.0, warmup_steps=10), total_steps=100, batch=16)
        with tf.Graph().as_default(), tf.Session() as session:
            step = tf.train.get_or_create_global_step()
            model.optimizer()
            (summary,) = tf.get_collection(tf.GraphKeys.SUMMARIES)
            rates = []
            for value in (0, 4, 50, 100):
                session.run(step.assign(value))
                message = tf.Summary.FromString(session.run(summary))
                rates.append(message.value[0].simple_value)
        half = [0.5 * (1 + np.cos(np.pi * k / 100)) for k in (0, 4, 50, 100)]
        np.testing.assert_allclose(2 * np.array([0.1, 0.5, 1, 1]) * half, rates, atol=1e-6)

    def test_pretrained_backbone(self, load, config, tmp_path):
        """The variables of an ImageNet model of tensorpack get their values; its first layer expects BGR images."""
        config = config._replace(norm="frozen", levels=(2, 3, 4, 5), width=8, depth=10)
        rng = np.random.RandomState(0)
        with tf.Graph().as_default(), tf.Session() as session:
            with TrainTowerContext(""):
                load("backbone").get_features(tf.zeros([1, 32, 32, 3], tf.uint8), config)
            variables = {v.op.name: v for v in tf.global_variables() if not v.op.name.startswith("fpn/")}
            assert {"conv0/W", "conv0/bn/mean/EMA", "group3/block0/shortcut/W"} <= set(variables)
            frozen = set(variables) - {v.op.name for v in tf.trainable_variables()}
            assert "group0/block0/conv1/W" in frozen
            assert "group1/block0/conv1/W" not in frozen
            values = {name: rng.rand(*v.shape.as_list()).astype("float32") for name, v in variables.items()}
            names = {name.replace("/shortcut/", "/convshortcut/"): value for name, value in values.items()}
            np.savez(str(tmp_path / "r.npz"), **names)
            session.run(tf.global_variables_initializer())
            load("backbone").read_pretrained(str(tmp_path / "r.npz")).init(session)
            loaded = session.run(variables)
        np.testing.assert_array_equal(values.pop("conv0/W")[:, :, ::-1], loaded.pop("conv0/W"))
        assert set(values) == set(loaded)
        for name, value in values.items():
            np.testing.assert_array_equal(value, loaded[name])

    def test_settings_are_stored(self, load, config, tmp_path):
        """config.json contains all settings."""
        config.save(str(tmp_path))
        loaded = load("config").Config.load(str(tmp_path))
        assert json.dumps(config) == json.dumps(loaded)


def stats(directory: Path) -> dict:
    """Return the last row of stats.json."""
    return json.loads((directory / "log" / "stats.json").read_text(encoding="utf-8"))[-1]


@pytest.mark.slow
def test_two_steps(tmp_path, scenes, run_example):
    """Mask R-CNN trains, is evaluated, resumed, draws pictures, and exports models with the same boxes."""
    (tmp_path / "scenes").symlink_to(scenes)
    run_example("detection/train.py", ["--masks", "--batch", "4", *TWO_STEPS], tmp_path)
    row = stats(tmp_path)
    losses = [
        "rpn_class_loss",
        "rpn_box_loss",
        "losses0/class_loss",
        "losses0/box_loss",
        "mask_loss",
        "total_cost",
    ]
    assert np.isfinite([row[key] for key in losses]).all()
    assert {"box_AP", "mask_AP"} <= set(row)
    files = {"model-2.index", "config.json", "results.json", "predictions.png"}
    assert files <= set(os.listdir(tmp_path / "log"))

    arguments = ["--masks", "--batch", "4", "--resume", *TWO_STEPS, "--max-epoch", "2"]
    assert "Epoch 2 (global_step 4)" in run_example("detection/train.py", arguments, tmp_path)
    output = run_example("detection/evaluate.py", ["--data", "scenes", "--log-dir", "log"], tmp_path)
    figures = dict(line.split() for line in output.splitlines() if re.match(r"(box|mask)_AP", line))
    assert stats(tmp_path)["box_AP"] == pytest.approx(float(figures["box_AP"]), abs=2e-3)

    images = [str(path) for path in sorted((scenes / "test").glob("*.jpg"))[:2]]
    run_example("detection/predict.py", [*images, "--log-dir", "log", "--output", "pictures"], tmp_path)
    assert (256, 256, 3) == cv2.imread(str(tmp_path / "pictures" / "000001.png")).shape
    output = run_example("detection/export.py", ["--log-dir", "log", "--image", images[0]], tmp_path)
    assert 2 == output.count("boxes as the checkpoint")
    assert {"model.pb", "serving"} <= set(os.listdir(tmp_path / "log"))


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_cascade_on_two_towers(tmp_path, scenes, run_example):
    """Cascade R-CNN trains on two towers with one image each, which have different sizes."""
    (tmp_path / "scenes").symlink_to(scenes)
    arguments = [
        "--cascade",
        "--gpus",
        "2",
        "--batch",
        "2",
        "--norm",
        "group",
        "--backbone",
        "50",
        *TWO_STEPS,
    ]
    run_example("detection/train.py", arguments, tmp_path)
    row = stats(tmp_path)
    assert np.isfinite([row[f"losses{k}/{name}_loss"] for k in range(3) for name in ("class", "box")]).all()
    assert "mask_AP" not in row


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_two_ranks(tmp_path, scenes):
    """Two ranks train with the collective engine, and only the chief writes files."""
    (tmp_path / "scenes").symlink_to(scenes)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(tensorpack_lite.__file__).parents[1]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    program = [sys.executable, "-m", "tensorpack_lite.launch", "-n", "2", str(EXAMPLE / "train.py")]
    done = subprocess.run(
        [*program, "--engine", "collective", "--batch", "4", *TWO_STEPS],
        cwd=str(tmp_path),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    assert 0 == done.returncode, done.stdout.decode()
    assert np.isfinite(stats(tmp_path)["total_cost"])
    assert {"log", "scenes"} == set(os.listdir(tmp_path))


@pytest.mark.gallery
def test_average_precision_on_scenes(tmp_path, run_example):
    """Mask R-CNN reaches a box AP of 0.45 and a mask AP of 0.40 on 200 scenes that it has not seen."""
    run_example("detection/train.py", ["--masks", "--log-dir", "log"], tmp_path)
    row = stats(tmp_path)
    assert row["box_AP"] >= 0.45
    assert row["mask_AP"] >= 0.40
