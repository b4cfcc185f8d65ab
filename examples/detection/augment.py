"""Augmentation of images with their boxes and masks."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from coco import Split, read_annotated
from config import MINI_MASK, Config

from tensorpack_lite import *

MIN_SIZE = 2  # pixels; smaller boxes are skipped


class ResizeToFit(imgaug.ImageAugmentor):
    """Resize so that the shorter edge has a random length, but the longer one at most `max_edge`. Keeps the aspect ratio."""

    def __init__(self, low: int, high: int, max_edge: int) -> None:
        super().__init__()
        self.low = low
        self.high = high
        self.max_edge = max_edge

    def get_transform(self, img):
        height, width = img.shape[:2]
        scale = self.rng.randint(self.low, self.high + 1) / min(height, width)
        scale = min(scale, self.max_edge / max(height, width))
        size = [max(int(scale * length + 0.5), 1) for length in (height, width)]
        return imgaug.ResizeTransform(height, width, *size, interp=cv2.INTER_LINEAR)


def resizer(config: Config, is_training: bool) -> ResizeToFit:
    """Return the augmentor that resizes images: to a random size in training, otherwise to the largest one."""
    low, high = config.short_edge
    return ResizeToFit(low if is_training else high, high, config.max_edge)


class Augment:
    """
    Function that reads and augments [an image of a split]; returns [image, boxes, labels] and, with masks, their masks.

    The image is uint8 [H, W, 3], boxes float32 [M, 4], labels int32 [M], -1 for crowds, and masks uint8 [M, 56, 56]. A mask
    covers only the box of its object and is resized, so that it needs little memory.
    """

    def __init__(self, split: Split, config: Config) -> None:
        self.coco = split.coco
        self.config = config
        self.label = {category: i for i, category in enumerate(config.category_ids, start=1)}
        geometric = [resizer(config, is_training=True)] + ([imgaug.Flip(horiz=True)] if config.flip else [])
        self.geometric = imgaug.AugmentorList(geometric)
        self.photometric = imgaug.AugmentorList([imgaug.Brightness(30), imgaug.Contrast((0.7, 1.3))])

    def __call__(self, datapoint: list) -> list:
        image = datapoint[0]
        rows = [row for row in self.coco.imgToAnns[image["id"]] if min(row["bbox"][2:]) > 0]
        pixels = read_annotated(image)
        transform = self.geometric.get_transform(pixels)
        pixels = transform.apply_image(pixels)
        boxes = np.array([row["bbox"] for row in rows], "float32").reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]  # (x, y, width, height) -> (x1, y1, x2, y2)
        boxes = transform_boxes(boxes, transform, pixels.shape)
        kept = np.flatnonzero((boxes[:, 2:] - boxes[:, :2]).min(axis=1) >= MIN_SIZE)
        rows = [rows[i] for i in kept]
        labels = [-1 if row.get("iscrowd") else self.label[row["category_id"]] for row in rows]
        results = [self.photometric.augment(pixels), boxes[kept], np.array(labels, "int32")]
        if self.config.masks:
            masks = [transform.apply_image(self.make_mask(row, image["path"])) for row in rows]
            masks = [crop_mask(mask, box) for mask, box in zip(masks, boxes[kept])]
            results.append(np.array(masks, "uint8").reshape(-1, MINI_MASK, MINI_MASK))
        return results

    def make_mask(self, row: Any, path: str) -> np.ndarray:
        """Return the mask [H, W] of an annotation, with the values 0 and 255."""
        try:
            return self.coco.annToMask(row) * 255
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"Augment: annotation {row['id']} of {path} has no valid segmentation ({error!r}). Correct it, or train without "
                "--masks."
            ) from error


def transform_boxes(boxes: np.ndarray, transform, shape: tuple) -> np.ndarray:
    """Apply a transform to boxes [M, 4]: return the boxes around their corners, clipped to an image of this shape."""
    x1, y1, x2, y2 = boxes.T
    corners = np.stack([x1, y1, x2, y1, x1, y2, x2, y2], axis=1).reshape(-1, 2)
    corners = transform.apply_coords(corners).reshape(-1, 4, 2)
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    return np.clip(boxes, 0, np.array(shape)[[1, 0, 1, 0]]).astype("float32")


def crop_mask(mask: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return the part of a mask [H, W] in [0, 255] inside of a box, resized to [56, 56], with values 0 and 1."""
    x1, y1, x2, y2 = box
    step_x, step_y = (x2 - x1) / MINI_MASK, (y2 - y1) / MINI_MASK
    # maps the center of each pixel of the result to its place in the image; pixel centers of OpenCV are integers
    matrix = np.array([[step_x, 0, x1 + step_x / 2 - 0.5], [0, step_y, y1 + step_y / 2 - 0.5]], "float32")
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    mask = cv2.warpAffine(mask, matrix, (MINI_MASK, MINI_MASK), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return (mask > 127).astype("uint8")
