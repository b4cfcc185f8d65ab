"""ranks/alone.py: a process that trains alone has the interface of ranks."""

from __future__ import annotations

import inspect

import pytest

from tensorpack_lite.ranks.alone import Alone, AloneChannel
from tensorpack_lite.ranks.channel import RankChannel
from tensorpack_lite.train.rank_connection import RankConnection


@pytest.mark.parametrize(("alone", "ranks"), [(Alone, RankConnection), (AloneChannel, RankChannel)])
def test_same_interface(alone, ranks):
    """Each method has the arguments of the one that it replaces."""
    for name, method in vars(alone).items():
        if inspect.isfunction(method):
            theirs = inspect.signature(getattr(ranks, name)).parameters
            assert list(inspect.signature(method).parameters) == list(theirs), name


def test_exchanges_return_the_own_value():
    """A gather of one rank is a list of one value."""
    channel = Alone().channel
    assert [["mine"], ["mine"]] == [channel.all_gather("a name", "mine"), channel.gather("a name", "mine")]
    assert ({}, None, None) == (channel.ask_all(), channel.wait_for_failure(100), channel.failure)
