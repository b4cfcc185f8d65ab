"""CheckReplicas. For tests with real ranks, see tests/train/test_collective.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks import CheckReplicas
from tensorpack_lite.ranks.connecting import RankError


class Channel:
    """Fake channel of two ranks; the second rank's checksums are a function of the first rank's."""

    size = 2

    def __init__(self, change):
        self.change, self.names = change, []

    def gather(self, name, value):
        self.names.append(name)
        return [value, self.change(dict(value))]

    def all_gather(self, name, value):
        return [value, None]  # only the chief has a result

    def describe_with(self, describe):
        """Do nothing, because no test asks where this rank is."""


def train(change, every=2):
    """Train six steps."""
    trainer = CountingTrainer()
    channel = Channel(change)
    trainer.ranks = SimpleNamespace(channel=channel)
    run(trainer, [CheckReplicas(every)], steps=3)
    return channel


class TestCheckReplicas:
    def test_equal(self):
        """Variables are compared every k steps of training; equal variables raise no error."""
        assert [f"comparing replicas after step {i}" for i in (2, 4, 6)] == train(lambda sums: sums).names

    def test_different(self):
        """The error names the variable and the rank."""
        with pytest.raises(RankError, match="after step 2, variable global_step of rank 1 differs from that of rank 0"):
            train(lambda sums: {**sums, "global_step": 0})

    def test_a_variable_of_the_chief_s(self):
        """A variable that the other rank does not have is not compared."""
        assert 3 == len(train(lambda sums: {}).names)
