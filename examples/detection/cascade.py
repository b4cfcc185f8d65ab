"""
The second half of the detector: one to three stages that classify and refine RoIs, the masks, and the final detections.

Source: Cai, Vasconcelos 2017, "Cascade R-CNN: delving into high quality object detection".
"""

from __future__ import annotations

import roi
from boxes import clip, decode
from config import MINI_MASK, Config
from pooling import pool

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf

BOX_SIZE, MASK_SIZE = 7, 14  # features of RoIs for the heads
# For each stage of the cascade: the IoU from which on a RoI is positive, and the weights of the regression.
STAGES = [(0.5, (10.0, 5.0)), (0.6, (20.0, 10.0)), (0.7, (30.0, 15.0))]


def scale_gradient(x, scale: float):
    """Return x; its gradient is multiplied by `scale`."""
    return x * scale + tf.stop_gradient(x * (1 - scale))


class Cascade:
    """
    The heads for boxes and masks, with their costs and results. Without `Config.cascade` there is one stage.

    All methods take the feature pyramid of `backbone.get_features`.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.num_classes = len(config.classes)
        self.stages = STAGES if config.cascade else STAGES[:1]

    def run_stage(self, number: int, features: list, rois, shape) -> tuple:
        """Return the logits and regressions of RoIs [N, R, 4], and the refined RoIs."""
        weights = self.stages[number][1]
        pooled = pool(features, *flatten(rois), BOX_SIZE, self.config)
        if get_current_tower_context().is_training:
            pooled = scale_gradient(pooled, 1 / len(self.stages))
        with tf.variable_scope(f"stage{number}"):
            logits, deltas = roi.box_head(pooled, self.num_classes, self.config)
        refined = decode(tf.reshape(deltas, tf.shape(rois)), rois, weights)
        return logits, deltas, tf.stop_gradient(clip(refined, shape[0], shape[1]))

    def stage_losses(self, features: list, rois, targets, gt_boxes, gt_labels, shape) -> list:
        """Return the losses of all stages. Each stage refines the boxes of the one before it."""
        losses = []
        for number, (threshold, weights) in enumerate(self.stages):
            if number > 0:
                targets = roi.match_rois(rois, gt_boxes, gt_labels, threshold, targets.weight)
            logits, deltas, refined = self.run_stage(number, features, rois, shape)
            with tf.name_scope(f"losses{number}"):
                losses += roi.box_losses(logits, deltas, rois, targets, weights)
            rois = refined
        return losses

    def mask_loss(self, features: list, rois, targets, gt_masks):
        """Return the loss of the masks of positive RoIs, which are the first ones of each image."""
        count = int(self.config.roi_batch * self.config.roi_positive)
        boxes, image_index = flatten(rois[:, :count])
        label, weight = (tf.reshape(x[:, :count], [-1]) for x in (targets.label, targets.weight))
        object_index = tf.reshape(targets.object[:, :count], [-1]) + image_index * tf.shape(gt_masks)[1]
        gt_masks = tf.reshape(tf.cast(gt_masks, tf.float32), [-1, MINI_MASK, MINI_MASK])
        object_boxes = tf.reshape(targets.box[:, :count], [-1, 4])
        # Images with few objects have negative RoIs among the first ones. RoI 0 is used in any case, because oneDNN's
        # convolution has no gradient for an empty batch.
        weight *= tf.cast(label > 0, tf.float32)
        used = tf.where(tf.logical_or(weight > 0, tf.equal(tf.range(tf.size(weight)), 0)))[:, 0]
        boxes, image_index, label, weight, object_index, object_boxes = (
            tf.gather(x, used) for x in (boxes, image_index, label, weight, object_index, object_boxes)
        )
        logits = self.mask_logits(features, boxes, image_index)
        wanted = roi.mask_targets(boxes, object_boxes, gt_masks, object_index, 2 * MASK_SIZE)
        return roi.mask_loss(logits, wanted, label, weight)

    def mask_logits(self, features: list, boxes, image_index):
        """Return the logits of the masks [B, 28, 28, classes] inside boxes [B, 4]."""
        pooled = pool(features, boxes, image_index, MASK_SIZE, self.config)
        with tf.variable_scope("mask"):
            return roi.mask_head(pooled, self.num_classes, self.config)

    def detect(self, features: list, rois, scores, shape) -> None:
        """Create the tensors with the detections. With a cascade, the probabilities are averaged over its stages."""
        config, count = self.config, tf.shape(rois)[1]
        probability = 0
        for number in range(len(self.stages)):
            logits, _, rois = self.run_stage(number, features, rois, shape)
            probability += tf.nn.softmax(logits) / len(self.stages)
        probability = tf.reshape(probability, [-1, count, self.num_classes + 1])[:, :, 1:]
        probability *= tf.cast(scores > 0, tf.float32)[:, :, None]  # not of padding
        boxes, scores, label, _ = tf.image.combined_non_max_suppression(
            rois[:, :, None, :],
            probability,
            max_output_size_per_class=config.detections,
            max_total_size=config.detections,
            iou_threshold=config.nms_iou,
            score_threshold=config.min_score,
            clip_boxes=False,
        )
        boxes = tf.reshape(boxes, [-1, config.detections, 4], name="boxes")
        scores = tf.identity(scores, name="scores")
        label = tf.cast(label, tf.int32) + tf.cast(scores > 0, tf.int32)
        tf.identity(label, name="labels")
        if config.masks:
            masks = tf.sigmoid(self.mask_logits(features, *flatten(boxes)))
            masks = roi.of_class(masks, tf.reshape(label, [-1]))
            tf.reshape(masks, [-1, config.detections, 2 * MASK_SIZE, 2 * MASK_SIZE], name="masks")


def flatten(boxes) -> tuple[tf.Tensor, tf.Tensor]:
    """Return boxes [N, R, 4] as [N * R, 4], and the numbers of their images [N * R]."""
    shape = tf.shape(boxes)
    return tf.reshape(boxes, [-1, 4]), tf.repeat(tf.range(shape[0]), shape[1])
