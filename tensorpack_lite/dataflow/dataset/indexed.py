"""Base classes of datasets: `StoredPairs` and `LabelledImages` keep the data in memory, `LabelledFiles` and `DecodedFiles` a list of paths."""

from __future__ import annotations

import os
from typing import List, Sequence, Tuple

import numpy as np

from ..base import Datapoint, IndexedData
from .readers import read_image


class StoredPairs(IndexedData):
    """
    Images and labels in memory: datapoints [images[k], labels[k]].

    Length: the number of images.
    Order: a new random order in each pass, or that of the arrays.
    Process: runs in the current process.

    Args:
        images: [N, ...].
        labels: [N].
        shuffle: whether to use a new random order in each pass.

    Raises:
        ValueError: the numbers of images and labels differ.

    Attributes:
        images: as given.
        labels: as given.

    Note:
        The list of a datapoint is new, but its arrays are views: modifying them in place modifies the dataset.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray | Sequence[int], shuffle: bool) -> None:
        super().__init__(shuffle)
        if len(images) != len(labels):
            raise ValueError(
                f"{type(self).__name__}: there are {len(images)} images, but {len(labels)} labels. "
                f"Do the files belong together?"
            )
        self.images = images
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def _datapoint(self, index: int) -> Datapoint:
        return [self.images[index], self.labels[index]]


class LabelledImages(StoredPairs):
    """
    Small grayscale images with labels, kept in memory: datapoints [float32 (H, W) in [0, 1], np.uint8 label].

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


class LabelledFiles(IndexedData):
    """
    Files with labels: datapoints [path, label].

    Length: the number of files in the list.
    Order: a new random order in each pass, or that of the list.
    Process: runs in the current process.

    Args:
        full_dir: the directory that contains the files.
        imglist: (path relative to `full_dir`, label) of each file.
        shuffle: whether to use a new random order in each pass.

    Raises:
        ValueError: one of the first ten files does not exist.

    Attributes:
        full_dir: as given.
        imglist: as given.
    """

    _NUM_CHECKED = 10

    def __init__(self, full_dir: str, imglist: Sequence[Tuple[str, int]], shuffle: bool) -> None:
        super().__init__(shuffle)
        self.full_dir = full_dir
        self.imglist: List[Tuple[str, int]] = list(imglist)
        for name, _ in self.imglist[: self._NUM_CHECKED]:
            path = os.path.join(full_dir, name)
            if not os.path.isfile(path):
                raise ValueError(
                    f"{type(self).__name__}: the list of images contains {path}, which does not exist. "
                    f"Is {full_dir} the right directory?"
                )

    def __len__(self) -> int:
        return len(self.imglist)

    def _datapoint(self, index: int) -> Datapoint:
        name, label = self.imglist[index]
        return [os.path.join(self.full_dir, name), label]


class DecodedFiles(LabelledFiles):
    """Image files with labels: datapoints [image, label], as OpenCV reads the image."""

    def _datapoint(self, index: int) -> Datapoint:
        path, label = super()._datapoint(index)
        return [read_image(path), label]
