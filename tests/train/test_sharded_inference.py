"""callbacks/sharded_inference.py on real ranks: every sample counts once, and the results are those of one process."""

from __future__ import annotations

import json

import pytest
from fakes.launching import CASES, launch

pytestmark = [pytest.mark.slow, pytest.mark.any_tensorflow]


def validated(directory, size, *arguments):
    """Train, and return the output and the results of each rank."""
    ended = launch(size, CASES, "sharded", directory, *arguments)
    assert 0 == ended.code, ended.out + ended.err
    return ended, [json.loads((directory / f"rank-{rank}.json").read_text()) for rank in range(size)]


@pytest.mark.parametrize(("size", "count"), [(2, 7), pytest.param(2, 1, marks=pytest.mark.proof), (3, 8)], ids=str)
def test_numbers_are_those_of_the_chief_alone(tmp_path, size, count):
    """The results equal those of the chief alone, to the bit, for any number of datapoints, and all ranks have them."""
    ended, ranks = validated(tmp_path, size, count)
    for name in ("cost", "wrong", "accuracy", "f1", "r2", *["auc"][: count > 1]):
        assert 2 == len(ranks[0][f"one_{name}"])
        assert [ranks[0][f"one_{name}"]] * size == [rank[f"all_{name}"] for rank in ranks]
        assert [[]] * (size - 1) == [rank[f"one_{name}"] for rank in ranks[1:]]
    assert list(range(count)) == ranks[0]["seen"]
    assert [None] * (size - 1) == [rank["seen"] for rank in ranks[1:]]
    num_samples = sum(1 + i % 3 for i in range(count))
    told = f"counted {count} datapoints, {num_samples} samples, on {size} ranks"
    assert 2 == (ended.out + ended.err).count(told)


@pytest.mark.full
def test_all_ranks_stop_alike(tmp_path):
    """
    A callback that stops training by a result of the chief stops all ranks, after two epochs of three steps, not four; a setter sets
    the same value. Averages can be validated on all ranks.
    """
    _, ranks = validated(tmp_path, 2, 4, "no better")
    assert [6, 6] == [rank["steps"] for rank in ranks]
    assert ranks[0]["rate"] == ranks[1]["rate"] < 1
    assert ranks[0]["all_cost"] == ranks[1]["all_cost"] != ranks[0]["one_cost"]


@pytest.mark.proof
def test_other_data(tmp_path):
    """If a rank has other data, all ranks end with an error that names it."""
    ended = launch(2, CASES, "sharded", tmp_path, 4, "other data")
    assert 0 != ended.code
    assert "those of rank 1 differ from those of rank 0" in ended.out + ended.err
