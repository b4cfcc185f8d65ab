"""Tests of the detector's boxes, proposals, RoIs and masks: each function against NumPy or a closed form."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tensorflow")
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
        samples = evaluated(lambda *args: tf.stack([load("rpn").sample(*args) for _ in range(4)]), *arguments)
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
        pooled = evaluated(load("pooling").roi_align, feature, boxes, index, 3)
        for k in range(4):
            for channel in range(3):
                expected = reference_roi_align(feature[index[k], :, :, channel], boxes[k], 3)
                np.testing.assert_allclose(expected, pooled[k, :, :, channel], atol=1e-5)

    def test_roi_align_of_a_ramp(self, load):
        """Where the map is the coordinate x, the features are the centers of the bins."""
        ramp = np.tile(np.arange(10, dtype="float32") + 0.5, [1, 10, 1])[..., None]
        pooled = evaluated(load("pooling").roi_align, ramp, np.float32([[1, 2, 7, 8]]), np.int32([0]), 3)
        np.testing.assert_allclose([2, 4, 6], pooled[0, 1, :, 0], atol=1e-5)

    def test_levels(self, load, config):
        """RoIs of the canonical size use level 4; half of it uses level 3; there is no level beyond the last one."""
        sides = np.float32([5, 56, 111, 112, 223, 224, 448, 2000])
        boxes = np.stack([0 * sides, 0 * sides, sides, sides], axis=1)
        coco = config._replace(levels=(2, 3, 4, 5, 6), canonical_size=224)
        levels = evaluated(load("pooling").choose_level, boxes, coco) + 2
        assert [2, 2, 2, 3, 3, 4, 5, 5] == levels.tolist()

    def test_pooling_from_several_levels(self, load, config):
        """Each box gets the features of its level, in the order of the boxes."""
        config = config._replace(levels=(2, 3), canonical_size=64, fpn_channels=1)
        features = [np.full([1, 16, 16, 1], 2.0, "float32"), np.full([1, 8, 8, 1], 3.0, "float32")]
        boxes = np.float32([[0, 0, 40, 40], [0, 0, 8, 8], [10, 10, 60, 60]])

        def pool(boxes, image_index):
            return load("pooling").pool([tf.constant(x) for x in features], boxes, image_index, 2, config)

        np.testing.assert_allclose([3, 2, 3], evaluated(pool, boxes, np.int32([0, 0, 0]))[:, 1, 1, 0])

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
