"""
Regions of interest (RoIs): their sampling for training, and the heads that classify, refine and segment them.

Sources: Girshick 2015, "Fast R-CNN"; He, Gkioxari, Dollar, Girshick 2017, "Mask R-CNN".
"""

from __future__ import annotations

from typing import NamedTuple

from boxes import encode, pairwise_iou
from config import Config
from pooling import roi_align
from rpn import SMALL, in_crowd, sample_both, smooth_l1

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf


class Targets(NamedTuple):
    """Labels and boxes that the heads should predict for RoIs [N, R, 4]. RoIs with the weight 0 do not count."""

    label: tf.Tensor  # [N, R]; 0 is the background
    box: tf.Tensor  # [N, R, 4], of the object with the largest IoU
    object: tf.Tensor  # [N, R], its number
    weight: tf.Tensor  # [N, R]


def match_rois(rois, gt_boxes, gt_labels, threshold: float, weight=None) -> Targets:
    """Assign RoIs [N, R, 4] to objects. Those whose largest IoU is below the threshold are background."""
    is_object = tf.cast(gt_labels > 0, tf.float32)[:, None, :]  # [N, 1, M]; 0 for padding and crowds
    iou = pairwise_iou(rois, gt_boxes) * is_object  # [N, R, M]
    index = tf.argmax(iou, axis=2, output_type=tf.int32)  # [N, R]
    label = tf.gather(gt_labels, index, batch_dims=1)
    is_positive = tf.reduce_max(iou, axis=2) >= threshold
    label *= tf.cast(is_positive, tf.int32)
    if weight is None:
        weight = tf.ones(tf.shape(label))
    box = tf.gather(gt_boxes, index, batch_dims=1)  # [N, R, 4]
    return Targets(label, box, index, weight)


def sample_rois(proposals, scores, gt_boxes, gt_labels, config: Config) -> tuple:
    """Return RoIs [N, R, 4] for training and their targets. The objects themselves are also candidates."""
    candidates = tf.concat([proposals, gt_boxes], 1)
    exists = tf.concat([scores > 0, gt_labels > 0], 1)
    targets = match_rois(candidates, gt_boxes, gt_labels, 0.5)
    positive = tf.logical_and(exists, targets.label > 0)
    ignored = tf.logical_or(positive, in_crowd(candidates, gt_boxes, gt_labels))
    negative = tf.logical_and(exists, tf.logical_not(ignored))
    positive, negative = sample_both(positive, negative, config.roi_batch, config.roi_positive)
    weight = tf.cast(tf.logical_or(positive, negative), tf.float32)
    # positive RoIs first, then negative ones, then those that do not count
    order = tf.cast(positive, tf.float32) + weight
    order = tf.nn.top_k(order, tf.minimum(config.roi_batch, tf.shape(order)[1])).indices
    targets = targets._replace(weight=weight)
    return (
        tf.gather(candidates, order, batch_dims=1),
        Targets(*[tf.gather(value, order, batch_dims=1) for value in targets]),
    )


def box_head(pooled, num_classes: int, config: Config) -> tuple:
    """Return the logits [B, 1 + classes] and the regressions [B, 4]; all classes share the regressions."""
    x = FullyConnected("fc0", pooled, config.head_units, activation=tf.nn.relu)
    x = FullyConnected("fc1", x, config.head_units, activation=tf.nn.relu)
    logits = FullyConnected("class", x, num_classes + 1, kernel_initializer=SMALL)
    return logits, FullyConnected("box", x, 4, kernel_initializer=tf.random_normal_initializer(stddev=0.001))


def box_losses(logits, deltas, rois, targets: Targets, weights: tuple) -> list:
    """Return the classification and the regression loss, averaged over the RoIs."""
    label = tf.reshape(targets.label, [-1])  # [N R]
    weight = tf.reshape(targets.weight, [-1])
    count = tf.maximum(tf.reduce_sum(weight), 1)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
    class_loss = tf.reduce_sum(loss * weight) / count
    positive = weight * tf.cast(label > 0, tf.float32)
    wanted = tf.reshape(encode(targets.box, rois, weights), [-1, 4])
    box_loss = tf.reduce_sum(smooth_l1(deltas - wanted, 1.0) * positive) / count
    predicted = tf.argmax(logits, 1, output_type=tf.int32)
    found = tf.cast(tf.equal(predicted, label), tf.float32) * positive
    tf.divide(tf.reduce_sum(found), tf.maximum(tf.reduce_sum(positive), 1), name="recall")
    return [tf.identity(class_loss, "class_loss"), tf.identity(box_loss, "box_loss")]


def mask_head(pooled, num_classes: int, config: Config):
    """Return the logits [B, 28, 28, classes] of masks, from features [B, 14, 14, C]."""
    x = pooled
    for k in range(config.mask_convs):
        x = Conv2D(f"conv{k}", x, config.mask_channels, 3, activation=tf.nn.relu)
    x = Conv2DTranspose("enlarge", x, config.mask_channels, 2, strides=2, activation=tf.nn.relu)
    return Conv2D("class", x, num_classes, 1)


def of_class(masks, label):
    """Return the masks [B, H, W] of one class each, from masks of all classes [B, H, W, classes] and labels [B] from 1 on."""
    mask_index = tf.range(tf.shape(label)[0])
    class_index = tf.maximum(label - 1, 0)
    by_class = tf.transpose(masks, [0, 3, 1, 2])  # [B, classes, H, W]
    return tf.gather_nd(by_class, tf.stack([mask_index, class_index], axis=1))


def mask_targets(rois, gt_boxes, gt_masks, object_index, size: int):
    """
    Return the masks [B, size, size] that objects have inside RoIs [B, 4].

    Args:
        gt_boxes: [B, 4], the box of each RoI's object.
        gt_masks: [G, S, S] in [0, 1], masks of objects, each of which fills its box.
        object_index: [B], the number of each RoI's object in `gt_masks`.
    """
    scale = gt_masks.shape.as_list()[1] / tf.maximum(gt_boxes[:, 2:] - gt_boxes[:, :2], 1e-2)
    corner = gt_boxes[:, :2]
    inside = tf.concat([(rois[:, :2] - corner) * scale, (rois[:, 2:] - corner) * scale], 1)
    pixels = roi_align(gt_masks[:, :, :, None], inside, object_index, size)[:, :, :, 0]
    return tf.cast(pixels > 0.5, tf.float32)


def mask_loss(logits, targets, label, weight):
    """Return the binary cross entropy of the masks of the right classes, averaged over all pixels and RoIs [B]."""
    loss = tf.nn.sigmoid_cross_entropy_with_logits(logits=of_class(logits, label), labels=targets)
    loss = tf.reduce_sum(tf.reduce_mean(loss, [1, 2]) * weight)
    return tf.divide(loss, tf.maximum(tf.reduce_sum(weight), 1), name="mask_loss")
