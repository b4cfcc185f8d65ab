"""Tests of worker processes that map and batch."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from fakes.reading import same

from tensorpack_lite.dataflow import (
    BatchData,
    DataFlow,
    DataFromList,
    MultiProcessMapAndBatchData,
    MultiProcessMapAndBatchDataZMQ,
)
from tensorpack_lite.dataflow.process.errors import WorkerDied


class Numbers(DataFlow):
    """0 to 11 with the pid of the process that was reset; `fault` is called at the end of a pass."""

    def __init__(self, fault=None):
        self.fault, self.pid = fault, 0

    def reset_state(self):
        self.pid = os.getpid()

    def __iter__(self):
        for k in range(12):
            yield [np.full((4,), k, np.float32), k, self.pid]
        if self.fault:
            self.fault()


def drop_odd(datapoint):
    """Drop every second datapoint."""
    return None if datapoint[1] % 2 else datapoint


def nothing(datapoint):
    """Drop all datapoints, because the return statement is missing."""


def fail_at_three(datapoint):
    """Raise an error for one datapoint."""
    if datapoint[1] == 3:
        raise ValueError("three is bad")
    return datapoint


def other_shape(datapoint):
    """Return datapoints that cannot be batched."""
    return [datapoint[0][: datapoint[1]], datapoint[1]]


def raise_in_flow():
    """Raise an error in the DataFlow."""
    raise KeyError("no file")


def exit_in_flow():
    """End the process of the dispatcher."""
    os._exit(5)


def ready(*args, **kwargs):
    """Build a DataFlow, reset it and return it."""
    flow = MultiProcessMapAndBatchDataZMQ(*args, **kwargs)
    flow.reset_state()
    return flow


class TestDropping:
    @pytest.mark.parametrize("num_proc", [1, 3])
    def test_dropping_everything_is_an_error(self, num_proc):
        """A function that drops everything raises RuntimeError, which names the function, instead of a hang."""
        with pytest.raises(RuntimeError, match="in map_func nothing.*nothing returned None for a whole pass"):
            next(iter(ready(Numbers(), num_proc, nothing, 4)))


class TestBatches:
    def test_several_lose_and_repeat_nothing(self):
        """Several processes neither lose nor repeat datapoints, up to those in flight."""
        batches = list(itertools.islice(ready(Numbers(), 3, same, 2, buffer_size=12), 300))
        counts = np.bincount(np.concatenate([b[1] for b in batches]), minlength=12)
        assert 600 == counts.sum()
        assert counts.max() - counts.min() <= 12

    def test_none_drops(self):
        """If the function drops a datapoint, the following ones fill the batch."""
        batches = list(itertools.islice(ready(Numbers(), 1, drop_odd, 4), 3))
        assert [[0, 2, 4, 6], [8, 10, 0, 2], [4, 6, 8, 10]] == [b[1].tolist() for b in batches]

    def test_the_source_runs_elsewhere(self):
        """The source is reset once, in a process that is neither this one nor a mapper."""
        flow = ready(Numbers(), 2, same, 4)
        pids = {pid for batch in itertools.islice(flow, 20) for pid in batch[2].tolist()}
        assert 1 == len(pids)
        assert os.getpid() not in pids

    def test_a_pass_continues_the_stream(self):
        """An iteration continues the stream where the last one stopped."""
        flow = ready(Numbers(), 1, same, 4)
        assert [0, 1, 2, 3] == next(iter(flow))[1].tolist()
        assert [4, 5, 6, 7] == next(iter(flow))[1].tolist()

    @pytest.mark.parametrize("side", [2, 40])
    @pytest.mark.parametrize("form", [list, dict])
    def test_it_equals_batch_data(self, side, form):
        """Batches equal those of BatchData, for lists and dicts, and for small and large arrays."""
        points = [[np.full((side, side), k, np.float32), k, k / 2, np.uint8(k)] for k in range(4)]
        points = points if form is list else [dict(zip("abcd", point)) for point in points]
        (expected,) = BatchData(DataFromList(points, shuffle=False), 4)
        batch = next(iter(ready(DataFromList(points, shuffle=False), 1, same, 4)))
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
                r"worker \d \(pid \d+\), in map_func fail_at_three or in batching at test_map_and_batch.py:\d+ on its datapoint \d: three",
            ),
            (Numbers(), other_shape, ValueError, "cannot be stacked"),
            (
                Numbers(raise_in_flow),
                same,
                KeyError,
                r"worker 0 \(pid \d+\), in the DataFlow Numbers at test_map_and_batch.py:\d+ on its datapoint \d+: no file",
            ),
            (Numbers(exit_in_flow), same, WorkerDied, "in the DataFlow Numbers, ended with exit code 5"),
        ],
    )
    def test_they_arrive(self, ds, func, error, text):
        """Errors of the DataFlow, the function and the batching, and a dead dispatcher, reach the consumer."""
        flow = ready(ds, 2, func, 4)
        with pytest.raises(error, match=text):
            list(itertools.islice(flow, 1000))


def test_both_names_and_the_default_buffer():
    """Both names refer to one class, and the default buffer holds ten batches; in tensorpack the default fails."""
    assert MultiProcessMapAndBatchData is MultiProcessMapAndBatchDataZMQ
    assert 40 == MultiProcessMapAndBatchData(Numbers(), 1, same, 4).buffer_size
