"""
Rule D04 of lint, without TensorFlow: samples that come again.

In:  digests of samples, in the order in which a training or a validation gets them.
Out: remarks.
"""

from __future__ import annotations

from typing import Hashable, Iterable

import numpy as np

from .remarks import Remark

MAX_SAMPLES = 10000
"""Samples of training, and of validation, that are compared."""

_FEWEST = 500  # samples
_TOO_MANY_AGAIN = 0.4  # drawing at random with replacement gives 0.12 in a quarter of a pass
_TOO_MANY_IN_COMMON = 20
_NUM_VALUES = 1024  # of a sample, for its digest
_BATCH_OF_IMAGES = 4
_SMALLEST_AXIS = 8  # of gray images [N, H, W], unlike the channels of one image [H, W, C]


def sample_digests(array: np.ndarray) -> list[Hashable]:
    """
    Return a digest of each image in a batch.

    Args:
        array: a component of a datapoint.

    Returns:
        Digests of up to 1,024 values of each image, for comparisons in this process; without constant images. Empty for a
        component that is not a batch of images: [N, H, W, C], or [N, H, W] with W of at least 8.
    """
    is_batch = array.ndim >= _BATCH_OF_IMAGES or (array.ndim == 3 and array.shape[2] >= _SMALLEST_AXIS)
    if not is_batch or array.size == 0 or array.dtype.kind not in "uif":
        return []
    flat = array.reshape(len(array), -1)
    flat = flat[:, :: max(1, flat.shape[1] // _NUM_VALUES)]
    return [hash(values.tobytes()) for values in flat if values.min() != values.max()]


class RepeatedSamples:
    """
    D04: many samples come several times within a quarter of a pass.

    Why: several workers run the same pipeline with the same random numbers, so each step sees copies, and part of the data
    is not seen.

    Does not report passes of less than 2,000 samples, or samples that are weighted or drawn with replacement.

    Args:
        name: the name of the input.
        num_in_pass: the number of samples in a pass.

    Source: a common mistake with MultiProcessRunner.
    """

    def __init__(self, name: str, num_in_pass: int) -> None:
        self._name = name
        self._limit = min(MAX_SAMPLES, num_in_pass // 4)
        self._seen: set[Hashable] = set()
        self._num = 0
        self.is_done = self._limit < _FEWEST

    def feed(self, digests: Iterable[Hashable]) -> Remark | None:
        """Take the digests of the next samples. Return a remark at the end of the first quarter."""
        if self.is_done:
            return None
        for digest in digests:
            self._num += 1
            self._seen.add(digest)
        if self._num < self._limit:
            return None
        self.is_done = True
        again = self._num - len(self._seen)
        if again < _TOO_MANY_AGAIN * self._num:
            return None
        return Remark(
            "D04",
            self._name,
            f"{again} of the first {self._num} samples of the pass are copies of earlier ones.",
            "If workers run the pipeline, give each its own random numbers (self.rng) or its own part of the data.",
        )


class CommonSamples:
    """
    D04: training and validation have samples in common.

    Why: validation is then better than on new data, and does not show that the model overfits.

    Does not report common samples if there are fewer than 20, or if training or validation has fewer than 500 samples,
    because many data sets have a few duplicates.

    Args:
        name: the name of the input.
        training: the digests of samples of training.

    Source: "Do ImageNet Classifiers Generalize to ImageNet?" and "Do We Train on Test Data?" count such duplicates.
    """

    def __init__(self, name: str, training: set[Hashable]) -> None:
        self._name = name
        self._training = training
        self._seen: set[Hashable] = set()
        self.is_done = False

    def feed(self, digests: Iterable[Hashable]) -> Remark | None:
        """Take the digests of the next samples of validation. Return a remark as soon as there are enough of them."""
        self._seen.update(digests)
        self.is_done = len(self._seen) >= MAX_SAMPLES
        if min(len(self._training), len(self._seen)) < _FEWEST:
            return None
        common = len(self._training & self._seen)
        if common < _TOO_MANY_IN_COMMON:
            return None
        self.is_done = True
        return Remark(
            "D04",
            self._name,
            f"{common} of {len(self._seen)} samples of validation are also among {len(self._training)} samples of training.",
            "Divide the data before augmentation and batches. For the error on the training data, add another InferenceRunner.",
        )
