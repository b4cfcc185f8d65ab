# Anchors, targets and non-maximum suppression of a detector, with the names of NumPy 1
import itertools
from collections import Mapping

import numpy as np
from tensorpack.dataflow import DataFromList, MapData


def make_anchors(base, ratios, scales):
    center = np.asscalar(np.array([(base - 1) / 2.0]))
    anchors = []
    for ratio, scale in itertools.product(ratios, scales):
        w = np.int(np.round_(np.sqrt(base * base / ratio))) * scale
        h = np.int(np.round_(w / np.float(scale) * ratio)) * scale
        anchors.append([center - w / 2, center - h / 2, center + w / 2, center + h / 2])
    return np.array(anchors, dtype=np.float)


def area(boxes):
    return np.product(boxes[:, 2:] - boxes[:, :2], axis=1)


def iou(a, b):
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = np.product(np.clip(high - low, 0, np.Inf), axis=2)
    return inter / (area(a)[:, None] + area(b)[None, :] - inter)


def nms(boxes, scores, threshold):
    keep, order = [], scores.argsort()[::-1]
    overlap = iou(boxes, boxes)
    suppressed = np.zeros(len(boxes), dtype=np.bool)
    for i in order:
        if not suppressed[i]:
            keep.append(i)
            suppressed |= overlap[i] > threshold
    return np.array(keep, dtype=np.int)


def targets(dp):
    boxes, = dp
    anchors = make_anchors(16, [0.5, 1, 2], 2 ** np.arange(1, 4))
    overlap = iou(anchors, boxes)
    labels = -np.ones(len(anchors), dtype=np.int)
    labels[overlap.max(axis=1) < 0.2] = 0
    labels[overlap.argmax(axis=0)] = 1
    assert not np.in1d([2], labels)[0]
    kept = nms(anchors, overlap.max(axis=1), 0.7)
    weights = np.reshape(overlap.max(axis=1), newshape=(-1, 1))
    return [labels, np.array(kept, copy=False), weights]


if __name__ == "__main__":
    rng = np.random.RandomState(0)
    corner = rng.rand(10, 3, 2) * 16
    data = [[np.concatenate([c, c + 10], axis=1)] for c in corner]
    assert issubclass(dict, Mapping)
    ds = MapData(DataFromList(data, shuffle=False), targets)
    ds.reset_state()
    total = np.NaN
    for labels, kept, weights in ds:
        total = np.nansum([total, (labels == 1).sum() + kept.sum() + weights.sum()])
    print("checksum: %.4f" % total)
