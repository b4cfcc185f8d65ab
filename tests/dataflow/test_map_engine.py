"""Tests of ParallelMapData, with a pool that has no workers and can be inspected."""

from __future__ import annotations

import gc
import itertools
from collections import Counter, deque

import pytest
from fakes.reading import ready, take

from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.map_engine import ParallelMapData, WorkerPool
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList


class FakePool(WorkerPool):
    """A pool that maps when a result is collected; `newest_first` reverses the order."""

    def __init__(self, map_func, newest_first):
        self.map_func, self.newest_first = map_func, newest_first
        self.waiting = deque()
        self.num_submitted = self.num_stopped = 0

    def submit(self, datapoint):
        self.num_submitted += 1
        self.waiting.append(datapoint)

    def collect(self):
        datapoint = self.waiting.pop() if self.newest_first else self.waiting.popleft()
        return self.map_func(datapoint)

    def stop(self):
        self.num_stopped += 1


class FakeMap(ParallelMapData):
    """A map that records its pools."""

    num_argument = "num_fake"
    newest_first = False

    def __init__(self, ds, num=1, map_func=lambda dp: dp, buffer_size=200, strict=False):
        super().__init__(ds, num, map_func, buffer_size, strict)
        self.pools = []

    def _start_pool(self):
        self.pools.append(FakePool(self.map_func, self.newest_first))
        return self.pools[-1]


class NewestFirst(FakeMap):
    """A map whose results have another order than the source."""

    newest_first = True


class Counting(DataFromList):
    """0 to num - 1, with a count of the datapoints pulled."""

    def __init__(self, num):
        super().__init__(list(range(num)), shuffle=False)
        self.num_pulled = 0

    def __iter__(self):
        for datapoint in super().__iter__():
            self.num_pulled += 1
            yield datapoint


def without_length(num):
    """Return a DataFlow of 0 to num - 1 without a length."""
    return DataFromGenerator(lambda: iter(range(num)))


class TestInFlight:
    @pytest.mark.parametrize("strict", [False, True])
    def test_one_datapoint_is_pulled_for_each_result(self, strict):
        """After k results, `buffer_size + k` datapoints were pulled; none are pulled before the first iteration."""
        source = Counting(1000)
        flow = ready(FakeMap(source, buffer_size=7, strict=strict))
        assert 0 == source.num_pulled
        iterator = iter(flow)
        for k in range(1, 20):
            next(iterator)
            assert 7 + k == source.num_pulled == flow.pools[0].num_submitted
            assert 7 == len(flow.pools[0].waiting)

    def test_a_dropped_one_is_replaced(self):
        """A dropped datapoint is replaced, so that the number in flight stays the same."""
        source = Counting(1000)
        flow = ready(FakeMap(source, map_func=lambda k: None if k % 2 else k, buffer_size=7))
        assert [0, 2, 4] == take(flow, 3)
        assert 7 + 5 == source.num_pulled
        assert 7 == len(flow.pools[0].waiting)

    def test_an_error_of_the_function_does_not_change_the_number_in_flight(self):
        """An error is the result of one datapoint, and the next iteration continues behind it."""
        flow = ready(FakeMap(Counting(100), map_func=lambda k: 10 // (3 - k), buffer_size=5))
        assert [3, 5, 10] == take(flow, 3)
        with pytest.raises(ZeroDivisionError):
            take(flow, 1)
        assert 5 == len(flow.pools[0].waiting)
        assert [-10] == take(flow, 1)

    @pytest.mark.parametrize("strict", [False, True])
    def test_an_interrupt_does_not_lose_a_result(self, strict):
        """Ctrl-C while waiting does not lose a result."""
        flow = ready(FakeMap(Counting(6), buffer_size=3, strict=strict))
        pool, collect = flow.pools[0], flow.pools[0].collect

        def interrupted():
            raise KeyboardInterrupt

        pool.collect = interrupted
        with pytest.raises(KeyboardInterrupt):
            take(flow, 1)
        pool.collect = collect
        assert list(range(6)) == take(flow, 6)


class TestNotStrict:
    def test_all_passes_read_one_stream(self):
        """With one worker, results are in order, and a new iteration continues where the last one stopped."""
        flow = ready(FakeMap(Counting(6), map_func=lambda k: 10 * k, buffer_size=4))
        assert [0, 10, 20, 30] == take(flow, 4)
        assert [40, 50, 0, 10, 20] == take(flow, 5)

    def test_nothing_is_lost_when_the_order_is_another(self):
        """The datapoints yielded and those in flight together are the datapoints pulled."""
        source = Counting(6)
        flow = ready(NewestFirst(source, buffer_size=4))
        out = take(flow, 50) + list(flow.pools[0].waiting)
        expected = Counter(itertools.islice(itertools.cycle(range(6)), source.num_pulled))
        assert expected == Counter(out)

    @pytest.mark.parametrize(
        ("num", "buffer_size", "expected"), [(4, 2, [2, 3, 0, 1, 2, 3, 0]), (3, 5, [0, 1, 2, 0, 1, 2, 0])]
    )
    def test_a_source_that_fails_is_started_again(self, num, buffer_size, expected):
        """After an error of the source, also while the buffer is filled, an iteration starts it again and loses nothing."""
        failures = [OSError("the disk")]

        def gen():
            yield from range(num)
            if failures:
                raise failures.pop()

        flow = ready(FakeMap(DataFromGenerator(gen), buffer_size=buffer_size))
        with pytest.raises(OSError, match="the disk"):
            take(flow, num)
        assert expected == take(flow, 7)

    def test_an_empty_source(self):
        """An empty source raises RuntimeError instead of waiting forever."""
        flow = ready(FakeMap(Counting(0)))
        for _ in range(2):
            with pytest.raises(RuntimeError, match="RepeatedData: Counting yielded no datapoint in a whole pass"):
                take(flow, 1)


def nothing(k):
    """Drop all datapoints, because the return statement is missing."""


class TestDroppingEverything:
    def test_a_whole_pass_is_an_error(self):
        """Dropping a whole pass raises RuntimeError, which names the function, in each iteration."""
        source = Counting(3000)
        flow = ready(FakeMap(source, map_func=nothing, buffer_size=200))
        for _ in range(2):
            with pytest.raises(
                RuntimeError, match=r"FakeMap: nothing returned None for a whole pass .*3\d\d\d datapoints"
            ):
                take(flow, 1)
        assert source.num_pulled < 2 * 3000

    def test_of_a_small_source(self):
        """Dropping passes of a small source raises RuntimeError only after 1000 datapoints in a row."""
        source = Counting(6)
        with pytest.raises(RuntimeError, match="nothing returned None for a whole pass"):
            take(ready(FakeMap(source, map_func=nothing)), 1)
        assert 1000 <= source.num_pulled < 1500

    @pytest.mark.parametrize("kind", [FakeMap, NewestFirst])
    @pytest.mark.parametrize("keep", [0, 1500, 2999])
    def test_one_datapoint_of_a_pass_is_enough(self, kind, keep):
        """One datapoint kept in a pass is enough, wherever it is and in whatever order results arrive."""
        flow = ready(kind(Counting(3000), map_func=lambda k: [k] if k == keep else None, buffer_size=200))
        assert [[keep]] * 3 == take(flow, 3)

    def test_a_datapoint_that_is_still_in_flight_counts(self):
        """A datapoint in a slow worker is yielded, even if the other workers have dropped several passes."""

        class KeeperLast(FakePool):
            def collect(self):
                for datapoint in self.waiting:
                    if datapoint != 7:
                        self.waiting.remove(datapoint)
                        return None
                return self.waiting.popleft()

        class Slow(FakeMap):
            def _start_pool(self):
                self.pools.append(KeeperLast(self.map_func, False))
                return self.pools[-1]

        flow = ready(Slow(Counting(600), buffer_size=20))
        assert [7] * 50 == take(flow, 50)

    def test_it_counts_from_the_last_datapoint(self):
        """A function that starts to drop everything after many datapoints raises RuntimeError as well."""
        calls = itertools.count()
        flow = ready(FakeMap(Counting(1200), map_func=lambda k: k if next(calls) < 5000 else None))
        with pytest.raises(RuntimeError, match="returned None for a whole pass"):
            for _ in range(5001):
                take(flow, 1)


class TestStrict:
    @pytest.mark.parametrize("kind", [FakeMap, NewestFirst])
    @pytest.mark.parametrize("buffer_size", [1, 3, 6, 300])
    def test_each_pass_is_complete(self, kind, buffer_size):
        """Each of 200 passes yields exactly the datapoints of the source."""
        flow = ready(kind(Counting(6), map_func=lambda k: k * k, buffer_size=buffer_size, strict=True))
        for _ in range(200):
            assert [0, 1, 4, 9, 16, 25] == sorted(flow)

    def test_the_buffer_is_cut_to_the_length(self):
        """The buffer is limited to the length, so that a pass does not pull from the next one."""
        source = Counting(6)
        next(iter(ready(FakeMap(source, buffer_size=300, strict=True))))
        assert 6 == source.num_pulled

    def test_the_next_pass_is_fetched_just_before_the_last_datapoint(self):
        """The next pass is fetched exactly before the last datapoint is yielded."""
        source = Counting(6)
        flow = ready(FakeMap(source, buffer_size=4, strict=True))
        pulled = [source.num_pulled for _ in flow]
        assert [5, 6, 6, 6, 6, 10] == pulled

    def test_a_loop_that_stops_at_the_last_datapoint_completes_the_pass(self):
        """A pass is complete after its last datapoint, even if the iterator was not exhausted."""
        flow = ready(FakeMap(Counting(6), buffer_size=4, strict=True))
        assert list(range(6)) == take(flow, 6)
        assert list(range(6)) == list(flow)

    @pytest.mark.parametrize("taken", [1, 3, 5])
    def test_a_pass_left_early_is_discarded(self, taken):
        """After a pass that was left early, the next one is complete."""
        flow = ready(FakeMap(Counting(6), buffer_size=4, strict=True))
        take(flow, taken)
        assert list(range(6)) == list(flow)
        assert list(range(6)) == list(flow)

    def test_a_pass_left_by_an_error_is_discarded(self):
        """After an error, the next pass starts at the beginning; errors in flight are discarded."""
        broken = [True]

        def fail(k):
            if broken[0] and k > 1:
                raise OSError("no answer")
            return k

        flow = ready(FakeMap(Counting(6), map_func=fail, buffer_size=4, strict=True))
        with pytest.raises(OSError, match="no answer"):
            list(flow)
        assert [3, 4, 5] == list(flow.pools[0].waiting)
        with pytest.raises(OSError, match="no answer"):
            list(flow)
        broken[0] = False
        assert list(range(6)) == list(flow)

    def test_none_is_an_error(self):
        """A function that returns None raises ValueError, because a strict pass keeps its length."""
        flow = ready(FakeMap(Counting(6), map_func=lambda k: k or None, strict=True))
        with pytest.raises(ValueError, match="FakeMap: map_func returned None, but with strict=True"):
            list(flow)

    def test_a_source_shorter_than_the_buffer(self):
        """A source without a length that is shorter than the buffer raises RuntimeError."""
        flow = ready(FakeMap(without_length(6), buffer_size=10, strict=True))
        for _ in range(2):
            with pytest.raises(RuntimeError, match="a pass of DataFromGenerator had 6 datapoints, fewer than the 10"):
                take(flow, 1)

    def test_a_source_without_length(self):
        """A source without a length works if it is not shorter than the buffer."""
        flow = ready(FakeMap(without_length(6), buffer_size=6, strict=True))
        assert [list(range(6))] * 2 == [list(flow), list(flow)]

    def test_an_empty_source(self):
        """An empty source yields empty passes."""
        flow = ready(FakeMap(Counting(0), strict=True))
        assert [] == list(flow) == list(flow)


class TestLife:
    def test_a_second_reset_stops_the_first_workers(self):
        """A second reset stops the first workers and starts at the beginning of the source."""
        flow = ready(FakeMap(Counting(6), buffer_size=2))
        take(flow, 3)
        assert list(range(6)) == take(ready(flow), 6)
        assert [1, 0] == [pool.num_stopped for pool in flow.pools]

    def test_the_workers_are_stopped_when_the_dataflow_is_dropped(self):
        """Deleting the DataFlow stops the workers at once."""
        flow = ready(FakeMap(Counting(6)))
        (pool,) = flow.pools
        gc.disable()
        try:
            del flow
            assert 1 == pool.num_stopped
        finally:
            gc.enable()

    def test_a_reset_that_fails_stops_the_workers(self):
        """If the source fails in its reset, the error is raised and the workers are stopped."""

        class Unreachable(DataFlow):
            def __iter__(self):
                yield from ()

            def reset_state(self):
                raise OSError("no route to host")

        flow = FakeMap(Unreachable())
        with pytest.raises(OSError, match="no route to host"):
            flow.reset_state()
        assert 1 == flow.pools[0].num_stopped

    @pytest.mark.parametrize("strict", [False, True])
    def test_reset_does_not_wait_for_the_source(self, strict):
        """A slow source delays the first iteration, but not `reset_state`."""

        def never():
            pytest.fail("the source was iterated")
            yield

        ready(FakeMap(DataFromGenerator(never), strict=strict))
