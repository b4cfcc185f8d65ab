"""
The region proposal network: a small network that finds boxes which may contain an object of any class.

Source: Ren, He, Girshick, Sun 2015, "Faster R-CNN: towards real-time object detection with region proposal networks".
"""

from __future__ import annotations

from boxes import area, clip, decode, encode, make_anchors, pairwise_intersection, pairwise_iou
from config import Config

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope

POSITIVE_IOU, NEGATIVE_IOU = 0.7, 0.3
SMALL = tf.random_normal_initializer(stddev=0.01)


@auto_reuse_variable_scope
def rpn_head(feature, num_ratios: int):
    """Return the scores [N, K] and regressions [N, K, 4] of the K anchors of a level. All levels share the weights."""
    channels = feature.shape.as_list()[3]
    batch = tf.shape(feature)[0]
    with argscope(Conv2D, kernel_initializer=SMALL):
        hidden = Conv2D("conv0", feature, channels, 3, activation=tf.nn.relu)
        logits = Conv2D("class", hidden, num_ratios, 1)
        deltas = Conv2D("box", hidden, num_ratios * 4, 1)
    return tf.reshape(logits, [batch, -1]), tf.reshape(deltas, [batch, -1, 4])


def get_anchors(features: list, config: Config) -> list:
    """Return the anchors [K, 4] of each level, in the order of the outputs of `rpn_head`."""
    anchors = []
    for feature, level, size in zip(features, config.levels, config.anchor_sizes):
        shape = tf.shape(feature)
        anchors.append(make_anchors(shape[1], shape[2], 2**level, size, config.anchor_ratios))
    return anchors


def in_crowd(boxes, gt_boxes, gt_labels):
    """Return whether boxes [N, K, 4] lie mostly in a region labeled -1, in which objects are not annotated one by one."""
    is_crowd = tf.cast(gt_labels < 0, tf.float32)[:, None, :]  # [N, 1, M]
    inside = pairwise_intersection(boxes, gt_boxes) * is_crowd  # [N, K, M]
    return tf.reduce_max(inside, axis=2) > 0.5 * area(boxes)


def match_anchors(anchors, gt_boxes, gt_labels) -> tuple:
    """
    Assign anchors [K, 4] to the objects gt_boxes [N, M, 4]. Rows with the label 0 are padding.

    An anchor is positive if its IoU with an object is at least 0.7, or if no anchor has a larger one with the object. It is
    negative if its IoU with each object is below 0.3. Others do not contribute to the cost.

    Returns:
        positive [N, K], negative [N, K], and the index of the object with the largest IoU [N, K].
    """
    anchors = tf.tile(anchors[None], [tf.shape(gt_boxes)[0], 1, 1])  # [N, K, 4]
    is_object = tf.cast(gt_labels > 0, tf.float32)[:, None, :]  # [N, 1, M]
    iou = pairwise_iou(anchors, gt_boxes) * is_object  # [N, K, M]
    best = tf.reduce_max(iou, axis=2)  # of each anchor, [N, K]
    best_of_object = tf.reduce_max(iou, axis=1, keepdims=True)  # [N, 1, M]
    is_best = tf.logical_and(iou >= best_of_object, iou > 0)  # [N, K, M]
    is_best_of_object = tf.reduce_any(is_best, axis=2)  # [N, K]
    positive = tf.logical_or(best >= POSITIVE_IOU, is_best_of_object)
    ignored = tf.logical_or(positive, in_crowd(anchors, gt_boxes, gt_labels))
    negative = tf.logical_and(best < NEGATIVE_IOU, tf.logical_not(ignored))
    return positive, negative, tf.argmax(iou, axis=2, output_type=tf.int32)


def sample(eligible, count, limit: int):
    """Return a mask [N, K] of `count` [N] random elements of each row of the mask `eligible`; of all if there are fewer."""
    # random numbers in [1, 2), and 0 for the others; the `count` largest ones are chosen
    rank = tf.where(eligible, tf.random_uniform(tf.shape(eligible), 1, 2), tf.zeros(tf.shape(eligible)))
    limit = tf.minimum(limit, tf.shape(eligible)[1])
    largest = tf.nn.top_k(rank, limit).values  # [N, limit]
    count = count[:, None]  # [N, 1]
    last = tf.gather(largest, tf.clip_by_value(count - 1, 0, limit - 1), batch_dims=1)  # [N, 1]
    return tf.logical_and(tf.logical_and(eligible, rank >= last), count > 0)


def sample_both(positive, negative, total: int, max_share: float) -> tuple:
    """Return random subsets of two masks [N, K]: up to `total` elements a row, and up to `max_share` of them positive."""
    batch = tf.shape(positive)[0]
    positive = sample(positive, tf.fill([batch], int(total * max_share)), total)
    num_positive = tf.reduce_sum(tf.cast(positive, tf.int32), 1)
    return positive, sample(negative, total - num_positive, total)


def smooth_l1(x, limit: float):
    """Return |x|, rounded between -limit and limit, summed over the last axis."""
    absolute = tf.abs(x)
    return tf.reduce_sum(tf.where(absolute < limit, x * x / (2 * limit), absolute - limit / 2), -1)


def rpn_losses(logits, deltas, anchors, gt_boxes, gt_labels, config: Config) -> list:
    """Return the classification and the regression loss, averaged over the sampled anchors."""
    positive, negative, index = match_anchors(anchors, gt_boxes, gt_labels)
    positive, negative = sample_both(positive, negative, config.rpn_batch, 0.5)
    positive = tf.cast(positive, tf.float32)
    negative = tf.cast(negative, tf.float32)
    count = tf.maximum(tf.reduce_sum(positive + negative), 1)
    loss = tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=positive)  # [N, K]
    class_loss = tf.reduce_sum(loss * (positive + negative)) / count
    objects = tf.gather(gt_boxes, index, batch_dims=1)  # [N, K, 4]
    targets = encode(objects, anchors[None])
    box_loss = tf.reduce_sum(smooth_l1(deltas - targets, 1 / 9) * positive) / count
    return [tf.identity(class_loss, "rpn_class_loss"), tf.identity(box_loss, "rpn_box_loss")]


def get_proposals(logits: list, deltas: list, anchors: list, shape, config: Config) -> tuple:
    """
    Return the proposals [N, P, 4] of images of the shape (height, width), and their scores [N, P].

    Each level contributes its best boxes. Non-maximum suppression compares only boxes of the same level, and the best of all
    levels remain. Images with fewer than P proposals have boxes with the score 0 at the end.
    """
    boxes, scores = [], []
    for level in range(len(anchors)):
        count = tf.minimum(config.proposals_before_nms, tf.shape(anchors[level])[0])
        best, index = tf.nn.top_k(tf.sigmoid(logits[level]), count)
        chosen = tf.gather(deltas[level], index, batch_dims=1)
        boxes.append(clip(decode(chosen, tf.gather(anchors[level], index)), shape[0], shape[1]))
        of_level = tf.one_hot(level, len(anchors))  # combined_non_max_suppression treats levels as classes
        scores.append(best[:, :, None] * of_level)
    boxes, scores, _, _ = tf.image.combined_non_max_suppression(
        tf.concat(boxes, 1)[:, :, None, :],
        tf.concat(scores, 1),
        max_output_size_per_class=config.proposals,
        max_total_size=config.proposals,
        iou_threshold=0.7,
        score_threshold=1e-6,  # those of other levels are 0
        clip_boxes=False,
    )
    boxes.set_shape([None, config.proposals, 4])
    return tf.stop_gradient(boxes), tf.stop_gradient(scores)
