"""Tests of worker processes that map."""

from __future__ import annotations

import itertools
import os
import time

import numpy as np
import pytest
from fakes.reading import same

from tensorpack_lite.dataflow import (
    DataFlow,
    DataFromList,
    MultiProcessMapDataZMQ,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
)
from tensorpack_lite.utils.utils import fix_rng_seed, get_rng


class Pulls(DataFlow):
    """0 to `size - 1`, with a count of the datapoints pulled."""

    def __init__(self, size=6, num_bytes=0):
        self.size, self.pulled, self.resets = size, 0, []
        self.num_bytes = num_bytes

    def reset_state(self):
        self.resets.append(os.getpid())

    def __len__(self):
        return self.size

    def __iter__(self):
        for k in range(self.size):
            self.pulled += 1
            yield [k, np.full(self.num_bytes, k, np.uint8)]


def who(datapoint):
    """Append the pid of the process that maps."""
    return [*datapoint, os.getpid()]


def add_one(datapoint):
    """Change an array in place, as augmentors do."""
    datapoint[1] += 1
    return datapoint


def fail_at_three(datapoint):
    """Raise an error for one datapoint."""
    if datapoint[0] == 3:
        raise ValueError("three is bad")
    return datapoint


def draw(datapoint):
    """Append a random number."""
    return [datapoint[0], int(get_rng().randint(10**9))]


def lazy(datapoint):
    """Take as long as the augmentation of a small image."""
    time.sleep(0.002)
    return datapoint


def ready(ds, num_proc, func, **kwargs):
    """Build a DataFlow, reset it and return it."""
    flow = MultiProcessMapDataZMQ(ds, num_proc, func, **kwargs)
    flow.reset_state()
    return flow


def numbers(datapoints):
    """Return the first components."""
    return [datapoint[0] for datapoint in datapoints]


class TestNotStrict:
    @pytest.mark.slow
    def test_the_source_runs_here_and_the_function_in_workers(self):
        """The source is reset once, in this process, and the function runs in other processes."""
        source = Pulls()
        flow = ready(source, 2, who, buffer_size=4)
        pids = {datapoint[2] for datapoint in itertools.islice(flow, 400)}
        assert [os.getpid()] == source.resets
        assert pids
        assert os.getpid() not in pids


class TestStrict:
    @pytest.mark.slow
    @pytest.mark.parametrize("num_proc", [1, 2, 4])
    def test_two_hundred_passes_lose_and_repeat_nothing(self, num_proc):
        """200 strict passes are complete; tensorpack hangs in about one of five such runs."""
        flow = ready(Pulls(), num_proc, same, buffer_size=3, strict=True)
        for _ in range(200):
            assert list(range(6)) == sorted(numbers(flow))


class TestArrays:
    @pytest.mark.slow
    @pytest.mark.parametrize("num_bytes", [10, 10**4, 10**6])
    def test_the_source_is_not_changed(self, num_bytes):
        """Small and large arrays arrive, and the worker changes a copy, not the arrays of the source."""
        kept = list(Pulls(num_bytes=num_bytes))
        flow = ready(DataFromList(kept, shuffle=False), 2, add_one, buffer_size=5)
        for k, array in itertools.islice(flow, 40):
            assert (k + 1) * num_bytes == array.astype(np.int64).sum()
        assert all((array == k).all() for k, array in kept)


class TestErrors:
    @pytest.mark.slow
    @pytest.mark.parametrize("strict", [False, True])
    def test_an_error_of_the_function_arrives(self, strict):
        """An error of the function is raised with stage, worker and function in its message."""
        flow = ready(Pulls(), 2, fail_at_three, buffer_size=2, strict=strict)
        with pytest.raises(
            ValueError,
            match=r"MultiProcessMapDataZMQ: worker \d \(pid \d+\), in map_func fail_at_three at test_map_process.py:\d+ on its datapoint \d: three is bad",
        ):
            list(flow)


@pytest.mark.slow
def test_a_seed_reaches_the_workers():
    """With a fixed seed and one worker, a run can be repeated."""
    runs = []
    for _ in range(2):
        fix_rng_seed(11)
        runs.append(list(itertools.islice(ready(Pulls(), 1, draw, buffer_size=3), 12)))
    assert runs[0] == runs[1]
    assert 12 == len({number for _, number in runs[0]})


def test_a_pause_of_the_consumer_is_used():
    """While the consumer pauses, datapoints are sent to the workers instead of waiting for the next call of `next`."""
    flow = ready(Pulls(100), 2, lazy, buffer_size=60)
    next(iter(flow))
    assert len(flow._pool._waiting) < flow._pool._chunk_length


class Fails(DataFlow):
    """Fails at its datapoint 14."""

    def __iter__(self):
        return map(divide, range(20))


def divide(k):
    """Fail at 13."""
    return [12 // (13 - (k if isinstance(k, int) else k[0]))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiProcessMapDataZMQ(DataFromList([[k] for k in range(20)], shuffle=False), 1, divide, buffer_size=8),
        lambda: MultiThreadMapData(DataFromList([[k] for k in range(20)], shuffle=False), 1, divide, buffer_size=8),
        lambda: MultiProcessRunnerZMQ(Fails(), 1),
    ],
    ids=["processes", "threads", "runner"],
)
def test_the_error_of_a_worker_names_the_datapoint(make):
    """The error of a worker names the number of the datapoint among those of the worker, counted from 1."""
    flow = make()
    flow.reset_state()
    with pytest.raises(ZeroDivisionError, match=r"worker 0 .*on its datapoint 14: integer"):
        list(itertools.islice(flow, 40))
