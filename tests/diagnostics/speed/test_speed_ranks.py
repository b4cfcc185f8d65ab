"""Tests of the sentence that names the rank for which the others wait."""

from __future__ import annotations

import re

import pytest
from fakes.launching import CASES, launch

from tensorpack_lite.diagnostics.speed.speed_verdict import Facts, describe_slowest, judge, summarize
from tensorpack_lite.diagnostics.speed.step_division import Division
from tensorpack_lite.utils.notes import read_notes


def a_rank(waiting, total=0.035):
    """Return the summary of a rank whose step takes 35 ms, of which it waits for data and spends 1 ms in the loop."""
    division = Division(waiting, total - waiting - 0.001, 0.001)
    facts = Facts(division, None, True, (total, total), "QueueInput", is_alone=False)
    return summarize(facts, judge(facts))


def test_a_rank_that_waits_for_data():
    """The rank that waits longest for data is named, with its time and what it says itself."""
    slowest = describe_slowest([a_rank(0.0), a_rank(0.022), a_rank(0.001)])
    assert 1 == slowest.rank
    assert slowest.text.startswith(
        "the other ranks wait for rank 1, which spends 23 ms of each step of 35 ms outside its graph; the others spend "
        "1.5 ms. Rank 1: "
    )


@pytest.mark.parametrize(
    "summaries",
    [
        [a_rank(0.022), a_rank(0.021)],
        [a_rank(0.0), a_rank(0.003)],
        [a_rank(0.022), None],
        [None, None],
    ],
)
def test_nothing_is_known(summaries):
    """If all ranks take about equally long outside their graphs, or only one has measured, no rank is named."""
    assert describe_slowest(summaries) is None


def test_the_graph_may_wait_for_a_rank():
    """With several ranks, a full queue does not mean that the graph limits."""
    assert "or another rank for which it waits (data is ready 100% of the time on this rank)" in a_rank(0.0)["text"]


@pytest.mark.slow
@pytest.mark.any_tensorflow
def test_two_ranks(tmp_path):
    """The chief names the rank whose data is slow, and repeats what that rank found."""
    ended = launch(2, CASES, "slow", tmp_path)
    assert 0 == ended.code, ended.err
    (note,) = [note for note in read_notes(str(tmp_path / "0")) if note["kind"] == "speed of ranks"]
    assert 1 == note["rank"]
    # on a busy machine, the time of a step may vary too much
    expected = r"Rank 1: (training waits for data .*wait_30ms|the time of a step varies too much)"
    assert re.search(expected, note["text"]), note["text"]
    assert [] == [note for note in read_notes(str(tmp_path / "1")) if note["kind"].startswith("speed")]
