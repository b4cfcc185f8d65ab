"""
Batches for training: images that worker processes augment, padded to equal sizes.

    images of a split -> MultiProcessMapData(Augment) -> [image, boxes, labels, masks] -> batches
"""

from __future__ import annotations

import numpy as np
from augment import Augment
from coco import Split
from config import Config

from tensorpack_lite import *

PADDING = (124, 116, 104)  # the mean color, which the network turns into zeros


def pad_batch(columns: list) -> list:
    """
    Convert lists of components to arrays, padded to the largest image and the largest number of objects.

    Padding has the label 0. There is at least one row of it if no image has an object.
    """
    images, rest = columns[0], columns[1:]
    height, width = np.max([image.shape[:2] for image in images], axis=0)
    batch = np.empty([len(images), height, width, 3], "uint8")
    batch[:] = PADDING
    for target, image in zip(batch, images):
        target[: image.shape[0], : image.shape[1]] = image
    most = max(1, max(len(labels) for labels in columns[2]))
    return [batch] + [np.stack([pad_rows(x, most) for x in column]) for column in rest]


def pad_rows(array: np.ndarray, count: int) -> np.ndarray:
    """Append zeros, so that the first axis has the length `count`."""
    return np.concatenate([array, np.zeros([count - len(array), *array.shape[1:]], array.dtype)])


def get_train_data(split: Split, config: Config, batch: int, workers: int, rank: int = 0, size: int = 1):
    """Return endless batches of `batch` augmented images. Each of `size` ranks gets other images."""
    images = [image for image in split.images if split.coco.imgToAnns[image["id"]]]
    ds = DataFromList([[image] for image in images], shuffle=True)
    if size > 1:
        ds = ShardData(RepeatedData(ds, -1), rank, size)
    ds = MultiProcessMapData(ds, workers, Augment(split, config), buffer_size=8 * batch)
    return MapData(BatchData(ds, batch, use_list=True), pad_batch)
