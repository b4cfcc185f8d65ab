"""
Functions and DataFlows of random speed, for the tests of parallel DataFlows.

The tests' own modules cannot be imported in a spawned process, this one can.
"""

from __future__ import annotations

import os
import random
import time

import numpy as np

from tensorpack_lite.dataflow import DataFromGenerator, DataFromList, RNGDataFlow, imgaug
from tensorpack_lite.utils.utils import get_rng


def jitter():
    """Sleep for up to 2 milliseconds, without drawing from a generator."""
    time.sleep(os.urandom(1)[0] / 255 * 0.002)


def add_100(datapoint):
    """Add 100 after a random time."""
    jitter()
    return [datapoint[0] + 100]


def drop_some(datapoint):
    """Drop every third datapoint after a random time."""
    jitter()
    return None if datapoint[0] % 3 == 0 else [datapoint[0], datapoint[0] ** 2]


class Draws:
    """A map function that draws from its own generator, which it requests late and only for some datapoints."""

    def __init__(self):
        self._rngs = {}

    def __call__(self, datapoint):
        jitter()
        numbers = [self._draw(kind) for kind in (["odd", "any"] if datapoint[0] % 2 else ["any"])]
        return [*datapoint, sum(numbers)]

    def _draw(self, kind):
        if (os.getpid(), kind) not in self._rngs:
            self._rngs[os.getpid(), kind] = get_rng()
        return self._rngs[os.getpid(), kind].randint(10**6)


def draws_globally(datapoint):
    """Append numbers of `random` and `numpy.random`."""
    jitter()
    return [*datapoint, random.random(), np.random.rand()]


AUGMENTORS = imgaug.AugmentorList(
    [imgaug.RandomApplyAug(imgaug.Flip(horiz=True), 0.5), imgaug.RandomCrop((3, 3)), imgaug.Brightness(30)]
)


def augment(datapoint):
    """Make an image of a number and augment it."""
    jitter()
    return [AUGMENTORS.augment(np.full((5, 5, 3), datapoint[0], np.float32) + np.arange(5)[:, None])]


class Numbers(RNGDataFlow):
    """7 random numbers, with a counter of datapoints."""

    state_attributes = ("counter",)

    def __init__(self):
        self.counter = 0

    def __iter__(self):
        for _ in range(7):
            jitter()
            self.counter += 1
            yield [int(self.rng.randint(10**6)), self.counter]


def shuffled():
    """12 numbers in a new random order in each pass."""
    return DataFromList([[k] for k in range(12)], shuffle=True)


def generated():
    """12 numbers that are replayed."""
    return DataFromGenerator(lambda: ([k] for k in range(12)))


def repr_of(datapoint):
    """Return the datapoint as text."""
    return [repr(datapoint)]
