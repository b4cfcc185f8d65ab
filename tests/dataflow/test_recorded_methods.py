"""Tests of which classes and methods keep the position of a DataFlow."""

from __future__ import annotations

import functools

import pytest
from fakes.positions import check_cuts

from tensorpack_lite.dataflow import DataFlow, DataFromList, ProxyDataFlow
from tensorpack_lite.utils.utils import get_rng


def through(method):
    """Decorate a method."""

    @functools.wraps(method)
    def decorated(self):
        return method(self)

    return decorated


class Decorated(DataFlow):
    """The methods that keep the position are decorated."""

    @through
    def reset_state(self):
        super().reset_state()
        self.rng = get_rng(self)

    @through
    def __iter__(self):
        for _ in range(6):
            yield [self.rng.randint(1000)]


class ReadsTwice:
    """A class that is not a DataFlow has the iteration."""

    def __iter__(self):
        for datapoint in self.ds:
            yield datapoint
            yield [-datapoint[0]]


class Mixed(ReadsTwice, ProxyDataFlow):
    """Inherits its iteration from a class that is not a DataFlow."""


class MixedAgain(Mixed):
    """Inherits the same iteration through a DataFlow."""


class Resets:
    """A class that is not a DataFlow has the reset."""

    def reset_state(self):
        self.factor = 3
        super().reset_state()


class MixedReset(Resets, ProxyDataFlow):
    """Inherits its reset from a class that is not a DataFlow."""

    def __iter__(self):
        for datapoint in self.ds:
            yield [self.factor * datapoint[0]]


def shuffled():
    """8 numbers in a new random order in each pass."""
    return DataFromList([[k] for k in range(8)], shuffle=True)


@pytest.mark.parametrize(
    "make",
    [
        Decorated,
        lambda: Mixed(shuffled()),
        lambda: MixedAgain(shuffled()),
        lambda: MixedReset(shuffled()),
        lambda: Mixed(MixedReset(Mixed(shuffled()))),
    ],
    ids=["decorated", "mixin", "subclass of a mixed one", "mixed reset", "all"],
)
def test_cut_after_every_event(make):
    """Decorated and inherited methods keep the position."""
    check_cuts(make, 40)
