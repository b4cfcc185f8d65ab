"""A function applied by processes, which also batch."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

from tensorpack_lite.dataflow import (
    BatchData,
    DataFlow,
    DataFromList,
    MultiProcessMapAndBatchData,
    MultiProcessMapAndBatchDataZMQ,
)
from tensorpack_lite.dataflow.process.errors import WorkerDied


class Numbers(DataFlow):
    """0 to 11, where they were reset, and a fault at the end if wanted."""

    def __init__(self, fault=None):
        self.fault, self.pid = fault, 0

    def reset_state(self):
        self.pid = os.getpid()

    def __iter__(self):
        for k in range(12):
            yield [np.full((4,), k, np.float32), k, self.pid]
        if self.fault:
            self.fault()


def identity(datapoint):
    """Nothing."""
    return datapoint


def drop_odd(datapoint):
    """None for every second one."""
    return None if datapoint[1] % 2 else datapoint


def nothing(datapoint):
    """A function that forgets its `return`."""


def keep_five(datapoint):
    """None for all but one datapoint of a pass."""
    return datapoint if datapoint[1] == 5 else None


def fail_at_three(datapoint):
    """An error for one datapoint."""
    if datapoint[1] == 3:
        raise ValueError("three is bad")
    return datapoint


def other_shape(datapoint):
    """Cannot be batched."""
    return [datapoint[0][: datapoint[1]], datapoint[1]]


def raise_in_flow():
    """An error of the DataFlow."""
    raise KeyError("no file")


def exit_in_flow():
    """The end of the dispatcher."""
    os._exit(5)


def ready(*args, **kwargs):
    """After its reset."""
    flow = MultiProcessMapAndBatchDataZMQ(*args, **kwargs)
    flow.reset_state()
    return flow


class TestDropping:
    @pytest.mark.parametrize("num_proc", [1, 3])
    def test_dropping_everything_is_an_error(self, num_proc):
        """It comes from a worker and names the function; the consumer does not wait forever."""
        with pytest.raises(RuntimeError, match="in map_func nothing.*nothing returned None for a whole pass"):
            next(iter(ready(Numbers(), num_proc, nothing, 4)))

    def test_one_datapoint_of_a_pass_is_enough(self):
        """Whichever worker it goes to: the others drop everything, and are right to."""
        flow = ready(Numbers(), 2, keep_five, 4)
        batches = list(itertools.islice(flow, 300))
        assert {(5, 5, 5, 5)} == {tuple(batch[1]) for batch in batches}


class TestBatches:
    def test_one_process_keeps_the_order(self):
        """As BatchData(MapData(ds)), repeated."""
        batches = list(itertools.islice(ready(Numbers(), 1, identity, 4), 6))
        assert 2 * [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]] == [b[1].tolist() for b in batches]
        assert {(4, 4)} == {b[0].shape for b in batches}

    def test_several_lose_and_repeat_nothing(self):
        """Over passes, whole numbers of them."""
        batches = list(itertools.islice(ready(Numbers(), 3, identity, 2, buffer_size=12), 300))
        counts = np.bincount(np.concatenate([b[1] for b in batches]), minlength=12)
        assert 600 == counts.sum()
        assert counts.max() - counts.min() <= 12

    def test_none_drops(self):
        """A batch is filled by the next ones."""
        batches = list(itertools.islice(ready(Numbers(), 1, drop_odd, 4), 3))
        assert [[0, 2, 4, 6], [8, 10, 0, 2], [4, 6, 8, 10]] == [b[1].tolist() for b in batches]

    def test_the_source_runs_elsewhere(self):
        """Reset once, in a process that is neither this one nor a mapper's."""
        flow = ready(Numbers(), 2, identity, 4)
        pids = {pid for batch in itertools.islice(flow, 20) for pid in batch[2].tolist()}
        assert 1 == len(pids)
        assert os.getpid() not in pids

    def test_no_length(self):
        """It never ends."""
        with pytest.raises(NotImplementedError, match="never ends"):
            len(MultiProcessMapAndBatchDataZMQ(DataFromList([[1]] * 9), 1, identity, 2))

    def test_a_pass_left_early_goes_on(self):
        """The position is that of the stream."""
        flow = ready(Numbers(), 1, identity, 4)
        assert [0, 1, 2, 3] == next(iter(flow))[1].tolist()
        assert [4, 5, 6, 7] == next(iter(flow))[1].tolist()

    @pytest.mark.parametrize("side", [2, 40])
    @pytest.mark.parametrize("form", [list, dict])
    def test_it_equals_batch_data(self, side, form):
        """For lists and dicts, small arrays and those that are stacked where they are sent to."""
        points = [[np.full((side, side), k, np.float32), k, k / 2, np.uint8(k)] for k in range(4)]
        points = points if form is list else [dict(zip("abcd", point)) for point in points]
        (expected,) = BatchData(DataFromList(points, shuffle=False), 4)
        batch = next(iter(ready(DataFromList(points, shuffle=False), 1, identity, 4)))
        assert type(expected) is type(batch)
        for one, other in zip(*(b.values() if form is dict else b for b in (expected, batch))):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


class TestErrors:
    @pytest.mark.parametrize(
        ("ds", "func", "error", "text"),
        [
            (
                Numbers(),
                fail_at_three,
                ValueError,
                r"worker \d \(pid \d+\), in map_func fail_at_three or in batching: three",
            ),
            (Numbers(), other_shape, ValueError, "cannot be stacked"),
            (
                Numbers(raise_in_flow),
                identity,
                KeyError,
                r"worker 0 \(pid \d+\), in the DataFlow Numbers: no file",
            ),
            (Numbers(exit_in_flow), identity, WorkerDied, "in the DataFlow Numbers, ended with exit code 5"),
        ],
    )
    def test_they_arrive(self, ds, func, error, text):
        """From the DataFlow, the function, the batching, and the end of the dispatcher."""
        flow = ready(ds, 2, func, 4)
        with pytest.raises(error, match=text):
            list(itertools.islice(flow, 1000))

    @pytest.mark.parametrize(
        ("args", "error", "text"),
        [
            ((0, identity, 4), ValueError, "num_proc and batch_size must be at least 1, got 0 and 4"),
            ((1, identity, 4, 4), ValueError, r"buffer_size must be above batch_size \(4\), got 4"),
            ((1, None, 4), TypeError, "map_func: takes a function"),
        ],
    )
    def test_arguments(self, args, error, text):
        """Are refused by name."""
        with pytest.raises(error, match=f"MultiProcessMapAndBatchDataZMQ: {text}"):
            MultiProcessMapAndBatchDataZMQ(Numbers(), *args)

    def test_a_second_reset_is_refused(self):
        """Its workers run already."""
        flow = ready(Numbers(), 1, identity, 4)
        with pytest.raises(RuntimeError, match="reset_state.. was called twice"):
            flow.reset_state()

    def test_iterating_before_reset(self):
        """The usual sentence."""
        with pytest.raises(RuntimeError, match="its workers are not started"):
            next(iter(MultiProcessMapAndBatchDataZMQ(Numbers(), 1, identity, 4)))


def test_both_names_and_the_default_buffer():
    """Ten batches; in tensorpack the default fails."""
    assert MultiProcessMapAndBatchData is MultiProcessMapAndBatchDataZMQ
    assert 40 == MultiProcessMapAndBatchData(Numbers(), 1, identity, 4).buffer_size
