"""
Strips of 3 to 8 handwritten digits, and padding for batches of sequences.

Each digit of scikit-learn is at a random place in a square of 20 x 20 pixels, and the squares of a strip are side by side.
ctc_strips.py imports this module.
"""

from __future__ import annotations

import cv2
import numpy as np
from sklearn.datasets import load_digits

from tensorpack_lite.dataflow import *
from tensorpack_lite.utils import get_rng


class Strips(ProxyDataFlow):
    """The first 3 to 8 of each 8 digits [20, 20], side by side: [frames [T, 20], labels [L]]."""

    def reset_state(self) -> None:
        super().reset_state()
        self.rng = get_rng(self)

    def __iter__(self):
        for images, labels in self.ds:
            count = self.rng.randint(3, 9)
            yield [np.concatenate(images[:count], axis=1).T, labels[:count]]


def get_strips() -> tuple:
    """Return training strips, which are new in each pass, and 450 held-out strips, as two DataFlows."""
    data = load_digits()  # in the order of their 13 writers; the gap from 1300 to 1437 is about one of them
    digits = list(zip((data.images / 16).astype("float32"), data.target.astype("int32")))
    paste = [imgaug.Resize(16), imgaug.RandomPaste((20, 20))]  # at a random place
    distort = imgaug.Affine(scale=(0.85, 1.15), rotate_max_deg=12, shear=12, border=cv2.BORDER_CONSTANT)
    train = AugmentImageComponent(DataFromList(digits[:1300]), [*paste, distort])
    test = AugmentImageComponent(DataFromList(digits[1437:]), paste)
    train, test = (Strips(BatchData(RepeatedData(ds, 10), 8)) for ds in (train, test))
    return train, CacheData(test)


def pad(sequences: list) -> list:
    """Convert a list of frames and one of labels to arrays: frames [N, T, D], length [N], label [N, L]."""
    length = np.array([len(frames) for frames in sequences[0]], "int32")
    frames = np.zeros([len(length), max(length), sequences[0][0].shape[1]], "float32")
    label = np.full([len(length), max(len(labels) for labels in sequences[1])], -1, "int32")
    for k, (x, y) in enumerate(zip(*sequences)):
        frames[k, : len(x)], label[k, : len(y)] = x, y
    return [frames, length, label]
