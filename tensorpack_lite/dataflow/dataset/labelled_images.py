"""Small grey images with a label each, all in memory: what Mnist, FashionMnist and Digits have in common."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from ..base import Datapoint, RNGDataFlow

__all__ = ["LabelledImages", "require_split"]


class LabelledImages(RNGDataFlow):
    """
    Grey images with labels: datapoints [float32 (H, W) in [0, 1], np.uint8 label].

    Length: the number of images.
    Order: a new random one each pass, or that of the arrays.
    Process: stays in this one.

    Args:
        images: uint8 or float32 [N, H, W], brightness from 0 to `white`.
        labels: integers [N], 0 to 255.
        white: the brightness that becomes 1.
        shuffle: in a new random order each pass; needs `reset_state`.

    Raises:
        ValueError: not as many labels as images.

    Attributes:
        images: float32 [N, H, W, 1] in [0, 1].
        labels: uint8 [N].

    Note:
        The image of a datapoint is a view of `images`: what changes it in place changes the data set.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray, white: float, shuffle: bool) -> None:
        if len(images) != len(labels):
            raise ValueError(
                f"{type(self).__name__}: {len(images)} images, but {len(labels)} labels. Are the files of one data set?"
            )
        self.images = np.divide(images, np.float32(white), dtype=np.float32)[..., np.newaxis]
        self.labels = labels.astype(np.uint8)
        self.shuffle = shuffle

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Datapoint]:
        images, labels = self.images[..., 0], self.labels
        order = self.rng.permutation(len(labels)).tolist() if self.shuffle else range(len(labels))
        for index in order:
            yield [images[index], labels[index]]


def require_split(who: object, train_or_test: str) -> None:
    """
    Refuse what is neither "train" nor "test".

    Args:
        who: the data set that complains.
        train_or_test: the name given.

    Raises:
        ValueError: it is neither.
    """
    if train_or_test not in ("train", "test"):
        raise ValueError(
            f"{type(who).__name__}: train_or_test must be 'train' or 'test', got {train_or_test!r}."
        )
