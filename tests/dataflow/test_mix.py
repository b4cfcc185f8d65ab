"""Tests of DataFlows that combine several others."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.mix import ConcatData, JoinData, RandomChooseData, RandomMixData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.utils.utils import fix_rng_seed

ALL = [RandomChooseData, RandomMixData, ConcatData, JoinData]


def flow_of(*datapoints):
    """Return a DataFlow that yields datapoints in order."""
    return DataFromList(list(datapoints), shuffle=False)


def reset(flow):
    """Fix the seed, reset a DataFlow and return it."""
    fix_rng_seed(1)
    flow.reset_state()
    return flow


class CountResets(DataFlow):
    """A DataFlow that counts its resets."""

    def __init__(self):
        self.resets = 0

    def __iter__(self):
        yield [1]

    def __len__(self):
        return 1

    def reset_state(self):
        self.resets += 1


@pytest.mark.parametrize("kind", ALL)
class TestAll:
    def test_a_shared_member_is_reset_once(self, kind):
        """A DataFlow that is listed twice is reset once."""
        shared, other = CountResets(), CountResets()
        kind([shared, other, shared]).reset_state()
        assert (1, 1) == (shared.resets, other.resets)


class TestRandomChooseData:
    def test_equal_probabilities(self):
        """Without probabilities, all DataFlows are chosen equally often."""
        drawn = Counter(
            itertools.islice(reset(RandomChooseData([RepeatedData(flow_of(k), -1) for k in range(3)])), 9000)
        )
        assert all(3000 == pytest.approx(drawn[k], abs=180) for k in range(3))

    def test_the_draws_are_those_of_choice(self):
        """The choices equal those of `rng.choice(n, p=...)` with the same seed."""
        weights = [0.7, 0.2, 0.1]  # whose sum is a little below 1
        flow = reset(RandomChooseData([(RepeatedData(flow_of(k), -1), p) for k, p in enumerate(weights)]))
        drawn = list(itertools.islice(flow, 50))
        rng = reset(RandomChooseData([flow_of(0)])).rng
        assert [rng.choice(3, p=weights) for _ in range(50)] == drawn

    def test_one_that_is_never_drawn(self):
        """A DataFlow with probability 0 is never chosen, and may be empty."""
        assert [1, 2] == list(reset(RandomChooseData([(flow_of(), 0), (flow_of(1, 2), 1), (flow_of(), 0)])))

    @pytest.mark.parametrize("weights", [[0.5, 0.4], [1.5, -0.5], [0.7, 0.2, 0.2]])
    def test_wrong_probabilities(self, weights):
        """Invalid probabilities raise ValueError, which shows them and their sum."""
        with pytest.raises(ValueError, match=r"expected probabilities >= 0 whose sum is 1, got \[.*, whose sum is"):
            RandomChooseData([(flow_of(1), p) for p in weights])

    def test_a_mixture_of_both_forms(self):
        """A list in which only some DataFlows have a probability raises TypeError."""
        with pytest.raises(TypeError, match="got a mixture"):
            RandomChooseData([(flow_of(1), 0.5), flow_of(2)])


class TestRandomMixData:
    def test_all_come_once_and_each_source_in_order(self):
        """All datapoints are yielded once in random order; those of one DataFlow keep their order."""
        flow = reset(RandomMixData([flow_of(*range(50)), flow_of(*range(100, 150))]))
        mixed = list(flow)
        assert list(range(50)) == [k for k in mixed if k < 100]
        assert list(range(100, 150)) == [k for k in mixed if k >= 100]
        assert mixed != sorted(mixed)
        assert 100 == len(flow)

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_an_empty_member(self, place):
        """Any of the DataFlows may be empty; tensorpack fails if the last one is."""
        members = [flow_of(1, 2), flow_of(3)]
        members.insert(place, flow_of())
        assert [1, 2, 3] == sorted(reset(RandomMixData(members)))

    def test_a_member_without_length(self):
        """A DataFlow without a length raises NotImplementedError in the constructor."""
        with pytest.raises(NotImplementedError, match="DataFromGenerator"):
            RandomMixData([DataFromGenerator(list)])

    def test_a_length_that_is_too_large(self):
        """A DataFlow that yields fewer datapoints than its length raises RuntimeError, which names it."""

        class Boaster(CountResets):
            def __len__(self):
                return 3

        with pytest.raises(RuntimeError, match=r"DataFlow 1 \(Boaster\) ended before it yielded the 3 datapoints"):
            list(reset(RandomMixData([flow_of(1), Boaster()])))


class TestConcatData:
    def test_one_after_the_other(self):
        """DataFlows are iterated in the order of the list, and their lengths add up."""
        flow = ConcatData([flow_of(1, 2), flow_of(), flow_of(3)])
        assert [1, 2, 3] == list(flow) == list(flow)
        assert 3 == len(flow)


class TestJoinData:
    def test_lists_and_tuples(self):
        """Components of lists and tuples are joined."""
        assert [[1, 2, 3]] == list(JoinData([flow_of([1, 2]), flow_of((3,))]))

    def test_dicts(self):
        """Dicts are merged, the last value of a key wins, and the dicts of the sources are unchanged."""
        first = {"a": 1, "b": 2}
        assert [{"a": 1, "b": 3}] == list(JoinData([flow_of(first), flow_of({"b": 3})]))
        assert {"a": 1, "b": 2} == first

    def test_it_ends_with_the_shortest(self, log_lines):
        """A pass ends with the shortest DataFlow, and different lengths are logged."""
        flow = JoinData([flow_of([1], [2]), flow_of([3])])
        assert [[1, 3]] == list(flow)
        assert 1 == len(flow)
        assert ["JoinData: the lengths [2, 1] differ. A pass ends with the shortest DataFlow."] == log_lines

    def test_unknown_lengths(self, log_lines):
        """Unknown lengths are logged, and `len` raises NotImplementedError."""
        flow = JoinData([flow_of([1]), DataFromGenerator(lambda: [[2]])])
        assert [[1, 2]] == list(iter(flow))
        assert "not all lengths are known" in log_lines[0]
        with pytest.raises(NotImplementedError):
            len(flow)

    def test_a_shared_member_is_iterated_twice(self):
        """A DataFlow that is listed twice is iterated twice."""
        shared = flow_of([1], [2])
        assert [[1, 1], [2, 2]] == list(JoinData([shared, shared]))

    @pytest.mark.parametrize("other", [{"a": 1}, np.zeros(2), 3])
    def test_datapoints_of_different_types(self, other):
        """Joining a list with another type raises ValueError."""
        with pytest.raises(ValueError, match=f"JoinData: cannot join .* got list, {type(other).__name__}"):
            list(JoinData([flow_of([1]), flow_of(other)]))
