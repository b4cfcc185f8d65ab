"""Base class of datasets of small grayscale images: Mnist, FashionMnist, Digits and Caltech101Silhouettes."""

from __future__ import annotations

import numpy as np

from ..base import Datapoint
from .indexed import StoredPairs

__all__ = ["LabelledImages"]


class LabelledImages(StoredPairs):
    """
    Grayscale images with labels, kept in memory: datapoints [float32 (H, W) in [0, 1], np.uint8 label].

    Length: the number of images.
    Order: a new random order in each pass, or that of the arrays.
    Process: runs in the current process.

    Args:
        images: uint8 or float32 [N, H, W], brightness from 0 to `white`.
        labels: integers [N], 0 to 255.
        white: the brightness that becomes 1.
        shuffle: whether to use a new random order in each pass.

    Raises:
        ValueError: the numbers of images and labels differ.

    Attributes:
        images: float32 [N, H, W, 1] in [0, 1].
        labels: uint8 [N].

    Note:
        The image of a datapoint is a view of `images`: modifying it in place modifies the dataset.
    """

    labels: np.ndarray

    def __init__(self, images: np.ndarray, labels: np.ndarray, white: float, shuffle: bool) -> None:
        scaled = np.divide(images, np.float32(white), dtype=np.float32)[..., np.newaxis]
        super().__init__(scaled, labels.astype(np.uint8), shuffle)

    def _datapoint(self, index: int) -> Datapoint:
        return [self.images[index, ..., 0], self.labels[index]]
