"""ranks/diagnosis.py: deadlocks among many ranks, and the time that the search takes."""

from __future__ import annotations

import pytest

from tensorpack_lite.ranks.diagnosis import RankState, find_failure, interval_seconds, still_seconds

NOW = 1000.0
STILL = 1.0


class Rank(RankState):
    """A rank that has not moved for five seconds; counts how often the search reads its kind of work or its step."""

    num_reads = 0

    def __init__(self, number, kind, step, has_data=True):
        super().__init__(number)
        self.status = {"kind": kind, "step": step, "where": f"in {kind} {step}", "has_data": has_data}
        self.heard, self.since = NOW, NOW - 5.0

    @property
    def kind(self):
        Rank.num_reads += 1
        return super().kind

    @property
    def step(self):
        Rank.num_reads += 1
        return super().step


def find(ranks, gathers, limit=300.0):
    """Return the failure, and how often the search has looked at a rank, for each rank."""
    Rank.num_reads = 0
    return find_failure(ranks, gathers, limit, NOW, STILL), Rank.num_reads / len(ranks)


@pytest.mark.parametrize("size", [10, 1000])
@pytest.mark.parametrize("limit", [300.0, 4.0])
def test_many_ranks_that_may_still_meet(size, limit):
    """Half of the ranks wait for the others, which are behind: the search takes a constant time for each rank."""
    ranks = [Rank(i, "gather" if i % 2 else "step", 5 if i % 2 else 4) for i in range(size)]
    failure, num_reads = find(ranks, [set(range(1, size, 2))], limit)
    assert (failure is None) == (limit > 5.0)
    assert num_reads < 30


@pytest.mark.parametrize(
    ("kinds", "gathers", "pair"),
    [
        (["gather", "gather"], [{0}, {1}], "Rank 0 and rank 1"),
        (["gather", "step"], [{0}], "Rank 0 and rank 1"),
        (["gather", "busy", "step"], [{0}], "Rank 0 and rank 2"),
        (["gather", "gather"], [{0}], None),  # the second has not given its value yet
        (["gather", "busy"], [{0}], None),
        (["gather", "variables"], [{0}], None),
        (["gather", "gather"], [{0, 1}], None),
    ],
)
def test_deadlocks(kinds, gathers, pair):
    """Two ranks that wait for each other in different places are named; ranks that may still meet are not."""
    failure, _ = find([Rank(i, kind, 5) for i, kind in enumerate(kinds)], gathers)
    assert pair is None if failure is None else failure.startswith(f"{pair} wait for each other")


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (["step", "step"], "No rank has finished step 6 within 4 s"),
        (
            ["step", "busy"],
            "Rank 1 has kept others waiting for 4 s, last seen after step 5, in busy 5. Rank 0: last seen",
        ),
        (["step", "excused"], None),  # a callback that only the chief has
    ],
)
def test_stragglers(kinds, told):
    """After the limit, a rank that keeps others waiting is named, or none if all wait; callbacks of the chief may take longer."""
    failure, _ = find([Rank(i, kind, 5) for i, kind in enumerate(kinds)], [], limit=4.0)
    assert told is None if failure is None else failure.startswith(told)


def test_the_end_of_the_data():
    """A rank whose data has ended may wait for a step of the others, but not if another rank's data has not ended."""
    other = Rank(2, "step", 5)
    assert find([Rank(0, "gather", 5, has_data=False), other], [{0}])[0] is None
    ranks = [Rank(0, "gather", 5, has_data=False), Rank(1, "gather", 5), other]
    assert find(ranks, [{0, 1}])[0].startswith("Rank 1 and rank 2 wait for each other")


def test_steps_that_others_still_have_to_do():
    """A rank in an earlier step than those in a gather is behind, and no deadlock; one between two of them is ahead of one."""
    ranks = [Rank(0, "gather", 7), Rank(1, "gather", 3), Rank(2, "step", 2)]
    assert find(ranks, [{0, 1}])[0] is None
    ranks[2].status["step"] = 5
    assert find(ranks, [{0, 1}])[0].startswith("Rank 1 and rank 2 wait for each other")


@pytest.mark.parametrize(("size", "interval"), [(2, 0.25), (256, 0.25), (257, 1.0), (1000, 1.0)])
def test_intervals(size, interval):
    """Above 256 ranks, each sends one status message a second, and a rank counts as still after four of them."""
    assert (interval, 4 * interval) == (interval_seconds(size), still_seconds(size))
