"""Several DataFlows as one."""

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
    """A DataFlow in order."""
    return DataFromList(list(datapoints), shuffle=False)


def reset(flow):
    """The DataFlow, ready to iterate, with a fixed seed."""
    fix_rng_seed(1)
    flow.reset_state()
    return flow


class CountResets(DataFlow):
    """Counts its resets."""

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
        """One that is listed twice is one object."""
        shared, other = CountResets(), CountResets()
        kind([shared, other, shared]).reset_state()
        assert (1, 1) == (shared.resets, other.resets)

    def test_no_member(self, kind):
        """Refused when built."""
        with pytest.raises(ValueError, match=f"{kind.__name__}: needs at least one DataFlow, got none"):
            kind([])

    def test_no_dataflow(self, kind):
        """A list in the list."""
        with pytest.raises(TypeError, match=f"{kind.__name__}: takes a DataFlow, got int"):
            kind([3])


class TestRandomChooseData:
    def test_frequencies(self):
        """Each source is drawn with its probability; four standard deviations."""
        sources = [(RepeatedData(flow_of(k), -1), p) for k, p in enumerate([0.7, 0.2, 0.1])]
        drawn = Counter(itertools.islice(reset(RandomChooseData(sources)), 10000))
        for k, p in enumerate([0.7, 0.2, 0.1]):
            assert p == pytest.approx(drawn[k] / 10000, abs=4 * (p * (1 - p) / 10000) ** 0.5)

    def test_equal_probabilities(self):
        """A list without probabilities."""
        drawn = Counter(
            itertools.islice(reset(RandomChooseData([RepeatedData(flow_of(k), -1) for k in range(3)])), 9000)
        )
        assert all(3000 == pytest.approx(drawn[k], abs=180) for k in range(3))

    def test_the_draws_are_those_of_choice(self):
        """The same as `rng.choice(n, p=...)` with the same seed."""
        weights = [0.5, 0.3, 0.2]
        flow = reset(RandomChooseData([(RepeatedData(flow_of(k), -1), p) for k, p in enumerate(weights)]))
        drawn = list(itertools.islice(flow, 50))
        rng = reset(RandomChooseData([flow_of(0)])).rng
        assert [rng.choice(3, p=weights) for _ in range(50)] == drawn

    def test_it_ends_when_a_drawn_one_has_ended(self):
        """A single source: after its last datapoint."""
        assert [1, 2] == list(reset(RandomChooseData([flow_of(1, 2)])))

    def test_one_that_is_never_drawn(self):
        """Probability 0 is fine, also for an empty DataFlow."""
        assert [1, 2] == list(reset(RandomChooseData([(flow_of(), 0), (flow_of(1, 2), 1), (flow_of(), 0)])))

    @pytest.mark.parametrize("weights", [[0.5, 0.4], [1.5, -0.5], [0.7, 0.2, 0.2]])
    def test_wrong_probabilities(self, weights):
        """They and their sum are shown."""
        with pytest.raises(
            ValueError, match=r"probabilities must be >= 0 and sum to 1, got \[.*with the sum"
        ):
            RandomChooseData([(flow_of(1), p) for p in weights])

    def test_a_mixture_of_both_forms(self):
        """Either all have a probability or none."""
        with pytest.raises(TypeError, match="got a mixture"):
            RandomChooseData([(flow_of(1), 0.5), flow_of(2)])

    def test_no_length(self):
        """Nobody knows."""
        with pytest.raises(NotImplementedError):
            len(RandomChooseData([flow_of(1)]))


class TestRandomMixData:
    def test_all_come_once_and_each_source_in_order(self):
        """One random order over all; within a source its own."""
        flow = reset(RandomMixData([flow_of(*range(50)), flow_of(*range(100, 150))]))
        mixed = list(flow)
        assert list(range(50)) == [k for k in mixed if k < 100]
        assert list(range(100, 150)) == [k for k in mixed if k >= 100]
        assert mixed != sorted(mixed)
        assert 100 == len(flow)

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_an_empty_member(self, place):
        """Wherever it stands; upstream fails when it is the last."""
        members = [flow_of(1, 2), flow_of(3)]
        members.insert(place, flow_of())
        assert [1, 2, 3] == sorted(reset(RandomMixData(members)))

    def test_a_member_without_length(self):
        """NotImplementedError, when built."""
        with pytest.raises(NotImplementedError, match="DataFromGenerator"):
            RandomMixData([DataFromGenerator(list)])

    def test_a_length_that_is_too_large(self):
        """The member and its length are named."""

        class Boaster(CountResets):
            def __len__(self):
                return 3

        with pytest.raises(RuntimeError, match=r"DataFlow 1 \(Boaster\) has len\(\) 3 and ended before"):
            list(reset(RandomMixData([flow_of(1), Boaster()])))


class TestConcatData:
    def test_one_after_the_other(self):
        """In the order of the list; the lengths add up."""
        flow = ConcatData([flow_of(1, 2), flow_of(), flow_of(3)])
        assert [1, 2, 3] == list(flow) == list(flow)
        assert 3 == len(flow)


class TestJoinData:
    def test_lists_and_tuples(self):
        """Components side by side."""
        assert [[1, 2, 3]] == list(JoinData([flow_of([1, 2]), flow_of((3,))]))

    def test_dicts(self):
        """Merged, the later one winning; the sources' dicts are not changed."""
        first = {"a": 1, "b": 2}
        assert [{"a": 1, "b": 3}] == list(JoinData([flow_of(first), flow_of({"b": 3})]))
        assert {"a": 1, "b": 2} == first

    def test_it_ends_with_the_shortest(self, log_lines):
        """And has its length; that they differ is logged."""
        flow = JoinData([flow_of([1], [2]), flow_of([3])])
        assert [[1, 3]] == list(flow)
        assert 1 == len(flow)
        assert ["JoinData: lengths differ, [2, 1]; a pass ends with the shortest."] == log_lines

    def test_unknown_lengths(self, log_lines):
        """Logged, and not an error until somebody asks."""
        flow = JoinData([flow_of([1]), DataFromGenerator(lambda: [[2]])])
        assert [[1, 2]] == list(iter(flow))
        assert "not all known" in log_lines[0]
        with pytest.raises(NotImplementedError):
            len(flow)

    def test_equal_lengths_are_not_worth_a_word(self, log_lines):
        """Nothing is logged."""
        JoinData([flow_of([1]), flow_of([2])])
        assert [] == log_lines

    def test_a_shared_member_is_iterated_twice(self):
        """Each place in the list has an iterator of its own."""
        shared = flow_of([1], [2])
        assert [[1, 1], [2, 2]] == list(JoinData([shared, shared]))

    @pytest.mark.parametrize("other", [{"a": 1}, np.zeros(2), 3])
    def test_forms_that_do_not_go_together(self, other):
        """A dict next to a list would only give its keys: refused."""
        with pytest.raises(
            ValueError, match=f"JoinData: joins lists with lists .* got list, {type(other).__name__}"
        ):
            list(JoinData([flow_of([1]), flow_of(other)]))
