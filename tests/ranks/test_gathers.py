"""ranks/gathers.py: who receives which values, and messages that do not fit."""

from __future__ import annotations

import json

import pytest

from tensorpack_lite.ranks.gathers import ALL, CHIEF, EACH, Gathers


def message(value, receivers=ALL, name="x"):
    """Return the message of a rank that joins a gather."""
    return {"name": name, "value": value, "receivers": receivers}


@pytest.mark.parametrize(
    ("values", "receivers", "answers"),
    [
        ([1, 2, 3], ALL, [[1, 2, 3]] * 3),
        ([1, 2, 3], CHIEF, [[1, 2, 3], None, None]),
        ([["a", "b", "c"], None, "ignored"], EACH, [["a"], ["b"], ["c"]]),
    ],
)
def test_receivers(values, receivers, answers):
    """When the last rank has given its value, each rank receives all values, none, or its part of the chief's list."""
    gathers = Gathers(3)
    for rank in (2, 0):
        assert [] == list(gathers.add(rank, message(values[rank], receivers)))
    assert [[0, 2]] == [sorted(ranks) for ranks in gathers.joined()]
    lines = list(gathers.add(1, message(values[1], receivers)))
    assert [{"type": "gathered", "name": "x", "values": one} for one in answers] == list(map(json.loads, lines))
    assert [] == gathers.joined()


@pytest.mark.parametrize(
    ("rank", "sent", "told"),
    [
        (1, message(0, name="y"), "takes part in a gather already"),
        (0, message(0, CHIEF), "other receivers of 'x'"),
        (0, message(0, "nobody"), "other receivers of 'x'"),
    ],
)
def test_messages_that_do_not_fit(rank, sent, told):
    """A second gather at once, or other receivers than those of the other ranks, are an error."""
    gathers = Gathers(2)
    assert [] == list(gathers.add(1, message(0)))
    with pytest.raises(ValueError, match=told):
        gathers.add(rank, sent)


@pytest.mark.parametrize("value", [None, [1], [1, 2, 3], {"0": 1, "1": 2}, "ab"])
def test_parts_that_do_not_fit(value):
    """In a scatter, the chief must have a list with a value for each rank."""
    with pytest.raises(ValueError, match="'x' does not have one value for each rank"):
        Gathers(2).add(0, message(value, EACH))


def test_values_that_nobody_reads():
    """In a scatter, the hub keeps no value of a rank that is not the chief."""
    gathers = Gathers(2)
    list(gathers.add(1, message("v" * 1000, EACH)))
    assert [{1: None}] == list(gathers._open.values())
