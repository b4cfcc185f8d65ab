"""Tests of the detector's boxes, proposals, RoIs and masks: each function against NumPy or a closed form."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("pycocotools")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")

import cv2

from tensorpack_lite.compat import tfv1 as tf

BOXES = np.float32([[0, 0, 10, 20], [5, 5, 15, 25], [30, 30, 31, 31], [2, 3, 2, 3]])


def evaluated(function, *args):
    """Call a function of tensors in a new graph; return the values of its results."""
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(function(*[tf.constant(x) if isinstance(x, np.ndarray) else x for x in args]))


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

    def test_decode_is_bounded(self, load):
        """A huge regression does not overflow: the size grows at most 62.5 times."""
        box = evaluated(load("boxes").decode, np.float32([[0, 0, 1e4, 1e4]]), np.float32([[0, 0, 2, 2]]))
        np.testing.assert_allclose(125, box[0, 2] - box[0, 0], rtol=1e-4)


class TestProposals:
    GT = np.float32([[[0, 0, 16, 16], [40, 40, 60, 60], [0, 0, 0, 0]]])

    def test_crowds(self, load):
        """Anchors in a crowd are neither positive nor negative."""
        anchors = np.float32([[42, 42, 46, 46], [100, 100, 116, 116]])
        positive, negative, _ = evaluated(load("rpn").match_anchors, anchors, self.GT, np.int32([[1, -1, 0]]))
        np.testing.assert_array_equal([[False, False]], positive)
        np.testing.assert_array_equal([[False, True]], negative)


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
        pooled = evaluated(load("pooling").roi_align, feature, boxes, index, 3)
        for k in range(4):
            for channel in range(3):
                expected = reference_roi_align(feature[index[k], :, :, channel], boxes[k], 3)
                np.testing.assert_allclose(expected, pooled[k, :, :, channel], atol=1e-5)

    @pytest.mark.slow
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


class TestMasks:
    def test_cropping_and_pasting(self, load):
        """A mask that is cropped to its box and pasted again is nearly the same, also for boxes between pixels."""
        image = np.zeros([60, 80], "uint8")
        cv2.ellipse(image, (40, 30), (25, 15), 30, 0, 360, 255, -1)
        rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
        for margin in (0, 0.5, 2.3):
            box = np.float32([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
            box += np.float32([-margin, -margin, margin, margin])
            cropped = load("augment").crop_mask(image, box)
            assert {0, 1} == set(np.unique(cropped))
            pasted = load("detect").paste_mask(cropped.astype("float32"), box, 60, 80)
            both, either = (pasted & (image > 0)).sum(), (pasted | (image > 0)).sum()
            assert both / either > 0.97

    def test_pasting_fills_the_box(self, load):
        """A mask of ones covers exactly the pixels of its box, and is clipped at the border of the image."""
        pasted = load("detect").paste_mask(np.ones([28, 28], "float32"), np.float32([3, 4, 13, 30]), 20, 20)
        expected = np.zeros([20, 20], bool)
        expected[4:20, 3:13] = True
        np.testing.assert_array_equal(expected, pasted)
