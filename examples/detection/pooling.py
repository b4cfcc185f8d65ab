"""
RoIAlign: the features of regions of interest (RoIs), each from the level of the pyramid for its size.

Sources: Lin et al. 2016, "Feature pyramid networks for object detection"; He, Gkioxari, Dollar, Girshick 2017, "Mask R-CNN".
"""

from __future__ import annotations

from boxes import area
from config import Config

from tensorpack_lite import tfv1 as tf


def roi_align(feature, boxes, image_index, size: int):
    """
    Return the features [B, size, size, C] inside boxes.

    Each value is the mean of 2 x 2 samples, which are interpolated between the centers of the four nearest cells. Nothing is
    rounded, and beyond the outermost centers the feature map continues with the same values.

    Args:
        feature: [N, H, W, C].
        boxes: [B, 4] in cells of the feature map, inside of it. No gradient flows to them.
        image_index: [B], the images of the boxes.
        size: rows and columns of the result.
    """
    # A border of one cell, because crop_and_resize returns zeros beyond the outermost centers.
    padded = tf.pad(feature, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="SYMMETRIC")
    samples = 2 * size
    step = (boxes[:, 2:] - boxes[:, :2]) / samples
    # The center of cell 0 is at 0.5 in boxes, at 0 for crop_and_resize, and the border moves it to 1.
    first = boxes[:, :2] + 0.5 * step - 0.5 + 1
    last = boxes[:, 2:] - 0.5 * step - 0.5 + 1
    shape = tf.shape(padded)
    corners = tf.concat([first[:, ::-1], last[:, ::-1]], 1)  # (y1, x1, y2, x2)
    corners /= tf.cast(tf.stack([shape[1], shape[2], shape[1], shape[2]]) - 1, tf.float32)
    crops = tf.image.crop_and_resize(
        padded, tf.stop_gradient(corners), box_indices=image_index, crop_size=[samples, samples]
    )
    crops.set_shape([None, samples, samples, feature.shape[3]])
    return tf.nn.avg_pool(crops, 2, 2, "VALID")


def choose_level(boxes, config: Config):
    """Return the position in `config.levels` of the feature map for each of boxes [B, 4]: large boxes use coarse levels."""
    lowest, highest = config.levels[0], min(config.levels[-1], 5)
    size = tf.sqrt(tf.maximum(area(boxes), 1.0))
    level = 4 + tf.floor(tf.log(size / config.canonical_size) / tf.log(2.0) + 1e-6)
    return tf.cast(tf.clip_by_value(level, lowest, highest), tf.int32) - lowest


def pool(features: list, boxes, image_index, size: int, config: Config):
    """Return the features [B, size, size, C] of boxes [B, 4], each from the level for its size."""
    used = [k for k in range(len(features)) if config.levels[k] <= 5]
    level = choose_level(boxes, config)
    positions = tf.dynamic_partition(tf.range(tf.shape(boxes)[0]), level, len(used))
    crops = []
    for k in used:
        cells = tf.gather(boxes, positions[k]) / 2 ** config.levels[k]
        crops.append(roi_align(features[k], cells, tf.gather(image_index, positions[k]), size))
    pooled = tf.dynamic_stitch(positions, crops)
    pooled.set_shape([None, size, size, config.fpn_channels])
    return pooled
