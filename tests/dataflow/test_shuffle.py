"""Tests of LocallyShuffleData and CacheData."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from fakes.reading import broken_once, take

from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.shuffle import CacheData, LocallyShuffleData
from tensorpack_lite.utils.utils import fix_rng_seed


def up_to(num):
    """Return a DataFlow of 0 to num - 1 in order."""
    return DataFromList(list(range(num)), shuffle=False)


def reset(flow):
    """Fix the seed, reset a DataFlow and return it."""
    fix_rng_seed(1)
    flow.reset_state()
    return flow


def held(flow):
    """Return the datapoints in the buffer."""
    return [datapoint for _, datapoint in flow.held]


def endless(pulled):
    """Return a DataFlow of 0, 1, 2, ... that records the numbers pulled."""

    def gen():
        for k in itertools.count():
            pulled.append(k)
            yield k

    return DataFromGenerator(gen)


class TestLocallyShuffleData:
    def test_nothing_is_lost_or_doubled(self):
        """The datapoints yielded and those in the buffer together are the datapoints pulled."""
        pulled = []
        flow = reset(LocallyShuffleData(endless(pulled), 10))
        out = take(flow, 100)
        assert sorted(pulled) == sorted(out + held(flow))
        assert len(set(out)) == len(out)

    def test_the_order_is_random_and_local(self):
        """The order is random, and the mean delay of a datapoint is the size of the buffer."""
        out = take(reset(LocallyShuffleData(endless([]), 10)), 1000)
        delays = [place + 10 - k for place, k in enumerate(out)]
        assert out != sorted(out)
        assert min(delays) >= 0
        assert 10 == pytest.approx(sum(delays) / len(delays), abs=1)

    def test_the_buffer_fills_first(self):
        """The first datapoint is yielded when the buffer is full; then one is pulled for each that is yielded."""
        pulled = []
        iterator = iter(reset(LocallyShuffleData(endless(pulled), 10)))
        next(iterator)
        assert 11 == len(pulled)
        next(iterator)
        assert 12 == len(pulled)

    def test_num_reuse(self):
        """Each datapoint enters the buffer `num_reuse` times."""
        flow = reset(LocallyShuffleData(endless([]), 10, num_reuse=3))
        counts = Counter(take(flow, 300) + held(flow))
        assert {3} == {counts[k] for k in range(100)}
        assert 18 == len(LocallyShuffleData(up_to(6), 4, num_reuse=3))

    def test_reset_empties_the_buffer(self):
        """`reset_state` empties the buffer; in tensorpack it stays filled."""
        flow = reset(LocallyShuffleData(endless([]), 10))
        take(flow, 5)
        reset(flow)
        assert [] == held(flow)

    @pytest.mark.parametrize("buffer_size", [1, 2])
    def test_a_small_buffer(self, buffer_size):
        """Buffers of one and two datapoints work; tensorpack divides by zero."""
        assert 20 == len(set(take(reset(LocallyShuffleData(endless([]), buffer_size)), 20)))

    def test_shuffle_interval(self):
        """With a long interval, the buffer is shuffled once and is a FIFO queue afterwards."""
        out = take(reset(LocallyShuffleData(endless([]), 10, shuffle_interval=1000)), 100)
        assert list(range(10)) == sorted(out[:10])
        assert list(range(10)) != out[:10]
        assert list(range(10, 100)) == out[10:]

    def test_an_empty_source(self):
        """An empty source raises RuntimeError instead of waiting forever."""
        with pytest.raises(RuntimeError, match="yielded no datapoint"):
            take(reset(LocallyShuffleData(up_to(0), 4)), 1)

    def test_the_buffer_stays_filled_between_passes(self):
        """A second pass yields datapoints at once, because the buffer stays filled."""
        pulled = []
        flow = reset(LocallyShuffleData(endless(pulled), 10))
        take(flow, 1)
        before = len(pulled)
        take(flow, 1)
        assert before + 1 == len(pulled)


class TestCacheData:
    def test_the_source_is_read_once(self):
        """The source is iterated once, and later passes yield the same objects."""
        calls = []

        def gen():
            calls.append(1)
            yield from ([0], [1])

        flow = reset(CacheData(DataFromGenerator(gen)))
        first, second = list(iter(flow)), list(iter(flow))
        assert [[0], [1]] == first
        assert all(a is b for a, b in zip(first, second))
        assert 1 == len(calls)

    def test_stopping_at_the_last_one_without_seeing_the_end(self):
        """A pass that stops at the last datapoint does not lose one; tensorpack's does."""
        flow = reset(CacheData(up_to(4)))
        assert [0, 1, 2, 3] == take(flow, 4)
        assert [0, 1, 2, 3] == list(flow)

    def test_a_first_pass_left_early(self):
        """After a first pass that was left early, the next pass is complete."""
        flow = reset(CacheData(up_to(4)))
        take(flow, 2)
        assert [0, 1, 2, 3] == list(flow) == list(flow)

    def test_a_first_pass_that_failed(self):
        """After a first pass that failed, the next pass is complete."""
        flow = reset(CacheData(DataFromGenerator(broken_once())))
        with pytest.raises(KeyError, match="the user's"):
            list(iter(flow))
        assert [1, 2] == list(iter(flow))

    def test_shuffle(self):
        """The first pass is in order, and each later one is complete and has a new order."""
        flow = reset(CacheData(up_to(50), shuffle=True))
        first, second, third = list(flow), list(flow), list(flow)
        assert list(range(50)) == first == sorted(second) == sorted(third)
        assert len({tuple(first), tuple(second), tuple(third)}) == 3

    def test_reset_forgets(self):
        """After a reset, the next pass reads the source again."""
        stored = [1, 2]
        flow = reset(CacheData(DataFromList(stored, shuffle=False)))
        list(flow)
        stored.append(3)
        assert [1, 2] == list(iter(flow))
        reset(flow)
        assert [1, 2, 3] == list(flow)
