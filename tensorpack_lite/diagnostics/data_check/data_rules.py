"""
Rules of lint about datapoints, without TensorFlow.

In:  the components of datapoints, in the order in which a training gets them.
Out: remarks.
"""

from __future__ import annotations

import math

import numpy as np

from .remarks import Remark

_WINDOW = 500  # labels
_NUM_WINDOWS = 4
_LONGEST = 50000  # labels
_IMAGE_RANK = 3  # a batch of gray images
_SMALLEST_IMAGE = 64  # values


class LabelRuns:
    """
    D01: labels come in runs, because the data is not shuffled, or in a buffer that is too small.

    Why: each step sees few classes, the model forgets the others, and validation stays bad.

    The labels of a pass are cut into windows of 500. There is a remark if the mean entropy of their classes is less than
    half of that of all labels so far.

    Args:
        name: the name of the input.

    Source: tensorpack issue 472 (days on sorted ImageNet); webdataset issue 71.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._window: list[int] = []
        self._entropies: list[float] = []
        self._total: dict[int, int] = {}
        self._num_seen = 0
        self.is_done = False

    def feed(self, labels: np.ndarray) -> Remark | None:
        """Take the labels of a datapoint, a number or a vector. Return a remark as soon as there are enough of them."""
        flat = np.ravel(labels)
        self._window += flat.tolist()
        self._num_seen += flat.size
        self.is_done = self._num_seen >= _LONGEST
        if len(self._window) < _WINDOW:
            return None
        values, counts = np.unique(self._window, return_counts=True)
        self._window = []
        self._entropies.append(_entropy(counts))
        for value, count in zip(values.tolist(), counts.tolist()):
            self._total[value] = self._total.get(value, 0) + count
        overall = _entropy(np.array(list(self._total.values())))
        mean = sum(self._entropies) / len(self._entropies)
        if len(self._entropies) < _NUM_WINDOWS or mean >= overall / 2:
            return None
        self.is_done = True
        return Remark(
            "D01",
            self._name,
            f"labels come in runs: {_WINDOW} in a row have about {math.exp(mean):.1f} classes, all of them {math.exp(overall):.1f}.",
            "Shuffle the data, or use a larger buffer in LocallyShuffleData.",
        )


def _entropy(counts: np.ndarray) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def labels_out_of_range(name: str, labels: np.ndarray, num_classes: int) -> Remark | None:
    """
    D02: a label is not in [0, number of classes).

    Why: a cross entropy of such a label is NaN on a GPU, and an error on a CPU.

    Args:
        name: the name of the input.
        labels: its integers.
        num_classes: the number of logits.

    Source: tensorpack issues 796, 1296.
    """
    if labels.size == 0:
        return None
    low, high = int(labels.min()), int(labels.max())
    if low >= 0 and high < num_classes:
        return None
    text = f"labels are in [{low}, {high}], but the last layer has {num_classes} classes, from 0 to {num_classes - 1}."
    return Remark("D02", name, text, "Correct the labels, or give the last layer as many units as there are classes.")


def labels_beyond_one(name: str, labels: np.ndarray) -> Remark | None:
    """
    D02: a label of a sigmoid cross entropy is not in [0, 1].

    Why: the cross entropy has no lower bound then, and falls for as long as the logits grow.

    Args:
        name: the name of the input.
        labels: its numbers.

    Source: labels -1 and 1, and masks up to 255.
    """
    if labels.size == 0 or not np.isfinite(labels).all() or (labels.min() >= 0 and labels.max() <= 1):
        return None
    text = f"labels are in [{labels.min():.4g}, {labels.max():.4g}], but a sigmoid cross entropy expects labels from 0 to 1."
    return Remark("D02", name, text, "Convert the labels, e.g. (label + 1) / 2 for -1 and 1, or mask / 255.")


def not_finite(name: str, array: np.ndarray) -> Remark | None:
    """
    D02: a component has NaN or infinite values.

    Why: the cost becomes NaN, and with it all variables.

    Source: tensorpack issues 796, 1296.
    """
    if array.dtype.kind != "f" or array.size == 0 or np.isfinite(array).all():
        return None
    count = int(array.size - np.isfinite(array).sum())
    text = f"{count} of {array.size} values of a datapoint are NaN or infinite."
    return Remark("D02", name, text, "Look for a division by zero in the DataFlow, or for missing values in the files.")


class ZeroImages:
    """
    D02: all images of the first two datapoints are zero.

    Why: the decoder failed silently, or a conversion truncated values in [0, 1] to integers.

    Args:
        name: the name of the input.

    Source: tensorpack issues about wrong scaling of images.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._num_zero = 0

    def feed(self, array: np.ndarray) -> Remark | None:
        """Take the next datapoint's component."""
        is_image = array.ndim >= _IMAGE_RANK and array.size >= _SMALLEST_IMAGE
        self._num_zero = self._num_zero + 1 if is_image and not array.any() else 0
        if self._num_zero != 2:
            return None
        text = "all values of the first two datapoints are 0."
        return Remark("D02", self._name, text, "Look at a datapoint of the DataFlow, e.g. with PrintData.")


def image_range(array: np.ndarray) -> float | None:
    """Return the largest absolute value of a batch of floating-point images; None if it is something else."""
    if array.ndim < _IMAGE_RANK or array.dtype.kind != "f" or array.size < _SMALLEST_IMAGE:
        return None
    return float(np.abs(array).max())


def different_ranges(name: str, training: float, validation: float) -> Remark | None:
    """
    D03: images are in [0, 1] in training and in [0, 255] in validation, or the reverse.

    Why: validation is much worse than training, or as bad as chance.

    Args:
        name: the name of the input.
        training, validation: the `image_range` of a datapoint of each.

    Source: a common cause of "validation is worse than training" in tensorpack's issues.
    """
    low, high = sorted((training, validation))
    if not (0.1 < low <= 2 and 64 < high <= 256):
        return None
    text = f"the largest absolute value of images is {training:.3g} in training and {validation:.3g} in validation."
    return Remark("D03", name, text, "Scale both in the same way, best inside build_graph.")
