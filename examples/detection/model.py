"""
Faster R-CNN, Mask R-CNN and Cascade R-CNN as a ModelDesc.

    image -> backbone -> feature pyramid -> region proposals -> RoIs -> classes and boxes (one to three stages) -> masks
"""

from __future__ import annotations

import math

import backbone
import roi
import rpn
from cascade import Cascade
from config import MINI_MASK, Config

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.summary import add_moving_summary


class Model(ModelDesc):
    """
    The detector. In inference, the tensors `boxes` [N, D, 4], `scores` [N, D], `labels` [N, D] and, with masks, `masks`
    [N, D, 28, 28] contain the detections in order of their scores. Those with the score 0 are padding.
    """

    def __init__(self, config: Config, total_steps: int = 1, batch: int = 8) -> None:
        super().__init__()
        self.config, self.total_steps = config, total_steps
        self.rate = config.rate * batch / 8
        self.cascade = Cascade(config)

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
            self.cascade.detect(features, proposals, scores, shape)
            return None
        anchors, logits, deltas = (tf.concat(x, axis) for x, axis in ((anchors, 0), (logits, 1), (deltas, 1)))
        losses = rpn.rpn_losses(logits, deltas, anchors, gt_boxes, gt_labels, config)
        rois, targets = roi.sample_rois(proposals, scores, gt_boxes, gt_labels, config)
        losses += self.cascade.stage_losses(features, rois, targets, gt_boxes, gt_labels, shape)
        if config.masks:
            losses.append(self.cascade.mask_loss(features, rois, targets, gt_masks))
        decay = tf.multiply(config.weight_decay, regularize_cost(".*/W", tf.nn.l2_loss), name="decay_loss")
        cost = tf.add_n([*losses, decay], name="total_cost")
        add_moving_summary(*losses, decay, cost)
        return cost

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
        opt = tf.train.AdamOptimizer(rate) if self.config.optimizer == "adam" else tf.train.MomentumOptimizer(rate, 0.9)
        return optimizer.apply_grad_processors(opt, [gradproc.GlobalNormClip(10)])
