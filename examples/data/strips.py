"""
Strips of 3 to 8 handwritten digits, and padding for batches of sequences.

Each digit of scikit-learn is at a random place in a square of 20 x 20 pixels, and the squares of a strip are side by
side. ctc_strips.py imports this module.
"""

from __future__ import annotations

from itertools import islice

import cv2
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from tensorpack_lite.dataflow import *
from tensorpack_lite.utils import get_rng

DIGIT = 16  # pixels of a digit
SQUARE = 20  # pixels of the square in which it is
HELD_OUT = 450  # strips


class Strips(ProxyDataFlow):
    """The first 3 to 8 of each 8 digits [20, 20], side by side: [frames [T, 20], labels [L]]."""

    def reset_state(self) -> None:
        super().reset_state()
        self.rng = get_rng(self)

    def __iter__(self):
        for images, labels in self.ds:
            count = self.rng.randint(3, 9)
            yield [np.concatenate(images[:count], axis=1).T, labels[:count]]


def make_held_out_strips(images: np.ndarray, labels: np.ndarray) -> list:
    """Return the same strips in each run, made of random digits [N, 8, 8]: pairs of frames [T, 20] and labels [L]."""
    rng = np.random.RandomState(0)
    strips = []
    for _ in range(HELD_OUT):
        chosen = rng.randint(len(images), size=rng.randint(3, 9))
        strip = np.zeros([SQUARE, SQUARE * len(chosen)], "float32")
        for k, index in enumerate(chosen):
            y, x = rng.randint(SQUARE - DIGIT + 1, size=2)
            x += k * SQUARE
            strip[y : y + DIGIT, x : x + DIGIT] = cv2.resize(images[index], (DIGIT, DIGIT))
        strips.append([strip.T, labels[chosen]])
    return strips


def get_strips() -> tuple:
    """
    Return training strips, which are new in each pass, and 450 held-out strips, as two DataFlows.

    Other people wrote the held-out digits. There are 360 of them, so each is in about seven strips, at other places.
    """
    data = load_digits()  # in the order of their 13 writers; the gap from 1300 to 1437 is about one of them
    images = (data.images / 16).astype("float32")
    labels = data.target.astype("int32")
    digits = DataFromList(list(zip(images[:1300], labels[:1300])))
    paste = [imgaug.Resize(DIGIT), imgaug.RandomPaste((SQUARE, SQUARE))]  # at a random place
    distort = imgaug.Affine(scale=(0.85, 1.15), rotate_max_deg=12, shear=12, border=cv2.BORDER_CONSTANT)
    digits = AugmentImageComponent(digits, [*paste, distort])
    train = Strips(BatchData(RepeatedData(digits, 10), 8))
    test = DataFromList(make_held_out_strips(images[1437:], labels[1437:]), shuffle=False)
    return train, test


def cut_strips(strips: list) -> tuple:
    """Return the squares of strips as rows [N, 400], and their labels [N]."""
    squares = [frames.reshape(-1, SQUARE * SQUARE) for frames, _ in strips]
    return np.concatenate(squares), np.concatenate([labels for _, labels in strips])


def get_svm_error() -> float:
    """Return the error of a support vector machine that is told where each digit is, which the network is not."""
    train, test = get_strips()
    splits = []
    for flow in (train, test):
        flow.reset_state()
        splits.append(cut_strips(list(islice(flow, 800))))  # there are fewer for testing
    (images, labels), (held_out_images, held_out_labels) = splits
    return 1 - SVC(C=10).fit(images, labels).score(held_out_images, held_out_labels)


def pad(sequences: list) -> list:
    """Convert a list of frames and one of labels to arrays: frames [N, T, D], length [N], labels [N, L]."""
    all_frames, all_labels = sequences  # N arrays [T, D] and N arrays [L]
    count = len(all_frames)
    length = np.array([len(frames) for frames in all_frames], "int32")
    num_labels = max(len(labels) for labels in all_labels)
    num_bands = all_frames[0].shape[1]
    padded_frames = np.zeros([count, max(length), num_bands], "float32")
    padded_labels = np.full([count, num_labels], -1, "int32")
    for k in range(count):
        padded_frames[k, : len(all_frames[k])] = all_frames[k]
        padded_labels[k, : len(all_labels[k])] = all_labels[k]
    return [padded_frames, length, padded_labels]
