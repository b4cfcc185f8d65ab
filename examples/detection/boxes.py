"""
Arithmetic of boxes and anchors.

A box is (x1, y1, x2, y2) in pixels. The corners of an image are (0, 0) and (width, height), so the pixel in row i and
column j is the box (j, i, j + 1, i + 1). All functions accept any number of leading axes.
"""

from __future__ import annotations

import math

import numpy as np

from tensorpack_lite import tfv1 as tf

MAX_LOG_SCALE = math.log(1000 / 16)  # a box grows at most by this factor, so that exp does not overflow


def area(boxes):
    """Return the areas [...] of boxes [..., 4]."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def pairwise_intersection(a, b):
    """Return the areas [..., A, B] in which each of the boxes a [..., A, 4] intersects each of b [..., B, 4]."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    size = tf.minimum(a[..., 2:], b[..., 2:]) - tf.maximum(a[..., :2], b[..., :2])
    return tf.reduce_prod(tf.maximum(size, 0), -1)


def pairwise_iou(a, b):
    """Return the intersection over union [..., A, B] of boxes a [..., A, 4] and b [..., B, 4]; 0 for empty boxes."""
    intersection = pairwise_intersection(a, b)
    union = area(a)[..., :, None] + area(b)[..., None, :] - intersection
    return intersection / tf.maximum(union, 1e-6)


def _center_and_size(boxes):
    size = boxes[..., 2:] - boxes[..., :2]
    return boxes[..., :2] + size / 2, size


def encode(boxes, anchors, weights=(1.0, 1.0)):
    """
    Return the regression targets [..., 4] of boxes [..., 4] relative to anchors [..., 4].

    They are the shift of the center in units of the anchor's size, and the logarithm of the change in size. The weights
    of both make their variances similar.
    """
    center, size = _center_and_size(boxes)
    anchor_center, anchor_size = _center_and_size(anchors)
    anchor_size = tf.maximum(anchor_size, 1e-2)
    shift = (center - anchor_center) / anchor_size
    scale = tf.log(tf.maximum(size, 1e-2) / anchor_size)
    return tf.concat([shift * weights[0], scale * weights[1]], -1)


def decode(deltas, anchors, weights=(1.0, 1.0)):
    """Return the boxes [..., 4] whose regression targets are `deltas`: the inverse of `encode`."""
    anchor_center, anchor_size = _center_and_size(anchors)
    center = anchor_center + deltas[..., :2] / weights[0] * anchor_size
    size = anchor_size * tf.exp(tf.minimum(deltas[..., 2:] / weights[1], MAX_LOG_SCALE))
    return tf.concat([center - size / 2, center + size / 2], -1)


def clip(boxes, height, width):
    """Clip boxes [..., 4] to an image; height and width are scalars."""
    limit = tf.cast(tf.stack([width, height, width, height]), tf.float32)
    return tf.minimum(tf.maximum(boxes, 0), limit)


def make_anchors(height, width, stride: int, size: float, ratios):
    """
    Return the anchors [height * width * len(ratios), 4] of a feature map.

    Each of its cells covers `stride` pixels and has one anchor for each ratio height / width, with the area size ** 2,
    around its center.
    """
    root = np.sqrt(np.asarray(ratios, "float32"))
    half = np.stack([size / root, size * root], axis=1) / 2  # (width, height) [A, 2]
    shape = np.concatenate([-half, half], axis=1)  # boxes around (0, 0), [A, 4]
    x = (tf.cast(tf.range(width), tf.float32) + 0.5) * stride
    y = (tf.cast(tf.range(height), tf.float32) + 0.5) * stride
    x, y = tf.meshgrid(x, y)  # [height, width]
    centers = tf.stack([x, y, x, y], axis=2)  # [height, width, 4]
    anchors = centers[:, :, None, :] + shape  # [height, width, A, 4]
    return tf.reshape(anchors, [-1, 4])
