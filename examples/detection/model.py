"""
Faster R-CNN, Mask R-CNN and Cascade R-CNN as a ModelDesc.

    image -> backbone -> feature pyramid -> region proposals -> RoIs -> classes and boxes (one to three stages) -> masks
"""

from __future__ import annotations

import math

import backbone
import roi
import rpn
from boxes import clip, decode
from config import MINI_MASK, Config

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.tfutils.summary import add_moving_summary

BOX_SIZE, MASK_SIZE = 7, 14  # features of RoIs for the heads
# For each stage of the cascade: the IoU from which on a RoI is positive, and the weights of the regression.
STAGES = [(0.5, (10.0, 5.0)), (0.6, (20.0, 10.0)), (0.7, (30.0, 15.0))]


def scale_gradient(x, scale: float):
    """Return x; its gradient is multiplied by `scale`."""
    return x * scale + tf.stop_gradient(x * (1 - scale))


class Model(ModelDesc):
    """
    The detector. In inference, the tensors `boxes` [N, D, 4], `scores` [N, D], `labels` [N, D] and, with masks, `masks`
    [N, D, 28, 28] contain the detections in order of their scores. Those with the score 0 are padding.
    """

    def __init__(self, config: Config, total_steps: int = 1, batch: int = 8) -> None:
        super().__init__()
        self.config, self.total_steps = config, total_steps
        self.rate = config.rate * batch / 8
        self.num_classes = len(config.classes)
        self.stages = STAGES if config.cascade else STAGES[:1]

    def inputs(self):
        masks = [tf.TensorSpec([None, None, MINI_MASK, MINI_MASK], tf.uint8, "gt_masks")]
        return [
            tf.TensorSpec([None, None, None, 3], tf.uint8, "image"),
            tf.TensorSpec([None, None, 4], tf.float32, "gt_boxes"),
            tf.TensorSpec([None, None], tf.int32, "gt_labels"),  # 0: padding; -1: a crowd
        ] + (masks if self.config.masks else [])

    def build_graph(self, image, gt_boxes, gt_labels, gt_masks=None):
        config, is_training = self.config, get_current_tower_context().is_training
        features = backbone.get_features(image, config)
        anchors = rpn.get_anchors(features, config)
        with tf.variable_scope("rpn"):
            logits, deltas = map(list, zip(*[rpn.rpn_head(x, len(config.anchor_ratios)) for x in features]))
        shape = tf.shape(image)[1:3]
        proposals, scores = rpn.get_proposals(logits, deltas, anchors, shape, config)
        if not is_training:
            self.detect(features, proposals, scores, shape)
            return None
        anchors, logits, deltas = (tf.concat(x, axis) for x, axis in ((anchors, 0), (logits, 1), (deltas, 1)))
        losses = rpn.rpn_losses(logits, deltas, anchors, gt_boxes, gt_labels, config)
        rois, targets = roi.sample_rois(proposals, scores, gt_boxes, gt_labels, config)
        losses += self.stage_losses(features, rois, targets, gt_boxes, gt_labels, shape)
        if config.masks:
            losses.append(self.mask_loss(features, rois, targets, gt_masks))
        decay = tf.multiply(config.weight_decay, regularize_cost(".*/W", tf.nn.l2_loss), name="decay_loss")
        cost = tf.add_n([*losses, decay], name="total_cost")
        add_moving_summary(*losses, decay, cost)
        return cost

    def run_stage(self, number: int, features: list, rois, shape) -> tuple:
        """Return the logits and regressions of RoIs [N, R, 4], and the refined RoIs."""
        weights = self.stages[number][1]
        pooled = roi.pool(features, *flatten(rois), BOX_SIZE, self.config)
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
        pooled = roi.pool(features, boxes, image_index, MASK_SIZE, self.config)
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

    @property
    def output_names(self) -> list:
        """The names of the detections."""
        return ["boxes", "scores", "labels"] + (["masks"] if self.config.masks else [])

    def optimizer(self):
        """Return an optimizer whose learning rate rises during the first steps, and then falls along half a cosine."""
        step = tf.cast(get_global_step_var(), tf.float32)
        warmup = tf.minimum((step + 1) / self.config.warmup_steps, 1.0)
        progress = tf.minimum(step / self.total_steps, 1.0)
        rate = self.rate * warmup * 0.5 * (1 + tf.cos(math.pi * progress))
        tf.summary.scalar("learning_rate", rate)
        if self.config.optimizer == "adam":
            opt = tf.train.AdamOptimizer(rate)
        else:
            opt = tf.train.MomentumOptimizer(rate, 0.9)
        return optimizer.apply_grad_processors(opt, [gradproc.GlobalNormClip(10)])


def flatten(boxes) -> tuple[tf.Tensor, tf.Tensor]:
    """Return boxes [N, R, 4] as [N * R, 4], and the numbers of their images [N * R]."""
    shape = tf.shape(boxes)
    return tf.reshape(boxes, [-1, 4]), tf.repeat(tf.range(shape[0]), shape[1])
