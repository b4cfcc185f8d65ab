"""Tests of DataFlows that run in worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from fakes.processes import python_environment
from fakes.reading import ready, same

from tensorpack_lite.dataflow import (
    BatchData,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    FakeData,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
)

# two batches of two numbers from each of two workers, with seed 1
DRAWN = "[[[655444, 1765292], [63472, 1014542]], [[1477168, 1781982], [708948, 1844730]]]"
BOTH = [lambda ds, n=1: MultiProcessRunner(ds, 4, n), lambda ds, n=1: MultiProcessRunnerZMQ(ds, n)]
both = pytest.mark.parametrize("make", BOTH, ids=["MultiProcessRunner", "MultiProcessRunnerZMQ"])


class Five(DataFlow):
    """0 to 4, with the pid of the process that iterates and those that called `reset_state`."""

    def __init__(self):
        self.reset_by = []

    def reset_state(self):
        self.reset_by.append(os.getpid())

    def __len__(self):
        return 5

    def __iter__(self):
        for k in range(5):
            yield [k, os.getpid(), list(self.reset_by)]


class SlowAfterTwo(DataFlow):
    """Two datapoints; the third takes forever."""

    def __iter__(self):
        yield [0]
        yield [1]
        time.sleep(1000)


def numbers(datapoints):
    """Return the first components."""
    return [datapoint[0] for datapoint in datapoints]


class TestPasses:
    @both
    def test_all_passes_read_one_stream(self, make):
        """After `break` the next pass continues where the last one stopped, and has the usual length."""
        flow = ready(make(Five()))
        assert [0, 1, 2] == numbers(itertools.islice(flow, 3))
        assert [3, 4, 0, 1, 2] == numbers(flow)

    @pytest.mark.slow
    @both
    def test_each_worker_yields_all_datapoints(self, make):
        """Each of several workers yields all datapoints in order."""
        flow = ready(make(Five(), 3))
        seen = {}
        for k, pid, _ in itertools.chain.from_iterable(itertools.repeat(flow)):
            seen.setdefault(pid, []).append(k)
            if 3 == len(seen) and min(map(len, seen.values())) > 10:
                break
        for ks in seen.values():
            assert [k % 5 for k in range(len(ks))] == ks

    @both
    def test_without_length_a_pass_has_no_end(self, make):
        """Without a length, a pass never ends, and `len` raises NotImplementedError."""
        flow = ready(make(DataFromGenerator(Five)))
        with pytest.raises(NotImplementedError):
            len(flow)
        assert 13 == len(list(itertools.islice(flow, 13)))

    def test_the_older_one_may_be_iterated_twice(self):
        """Two iterators of a MultiProcessRunner share one stream."""
        flow = ready(MultiProcessRunner(Five(), 2, 1))
        one, two = iter(flow), iter(flow)
        assert [0, 1, 2, 3] == [next(i)[0] for i in (one, two, one, two)]

    def test_datapoints_are_not_delayed(self):
        """A datapoint is sent without waiting for others to fill a message."""
        flow = ready(MultiProcessRunnerZMQ(SlowAfterTwo()))
        assert [0, 1] == numbers(itertools.islice(flow, 2))


class TestReset:
    @both
    def test_only_the_worker_resets(self, make):
        """The DataFlow is reset once, in the worker process."""
        source = Five()
        flow = ready(make(source))
        _, pid, reset_by = next(iter(flow))
        assert [] == source.reset_by
        assert [pid] == reset_by
        assert os.getpid() != pid


class TestNesting:
    def test_a_runner_in_a_runner(self):
        """A runner can wrap another runner."""
        flow = ready(MultiProcessRunnerZMQ(MultiProcessRunner(Five(), 2, 1)))
        assert list(range(5)) == numbers(flow)

    def test_threads_and_batches_in_a_runner(self):
        """A runner can wrap threads and batches, as the guide recommends."""
        inner = MultiThreadMapData(DataFromList([[k] for k in range(5)]), 2, same, buffer_size=3, strict=True)
        flow = ready(MultiProcessRunnerZMQ(BatchData(inner, 5)))
        assert list(range(5)) == sorted(next(iter(flow))[0])


@pytest.mark.slow
class TestStartMethods:
    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_a_pipeline_of_five_stages(self, method, tmp_path):
        """With a seed, workers draw different numbers, the same in each run; spawn refuses a lambda."""
        script = tmp_path / "script.py"
        script.write_text(
            f"""
import multiprocessing, os, pickle, sys
import numpy as np
from tensorpack_lite.dataflow import *
from tensorpack_lite.utils.utils import fix_rng_seed

def double(datapoint):
    return [datapoint[0] * 2, datapoint[1]]

class Noise(RNGDataFlow):
    def __iter__(self):
        while True:
            yield [self.rng.randint(10**6), os.getpid(), np.zeros((300, 300))]

if __name__ == "__main__":
    multiprocessing.set_start_method({method!r})
    fix_rng_seed(1)
    flow = SelectComponent(Noise(), [0, 1])
    flow = MultiProcessRunnerZMQ(BatchData(MapData(flow, double), 2), 2)
    flow.reset_state()
    drawn = {{}}
    for number, pid in flow:
        drawn.setdefault(pid[0], []).append(number.tolist())
        if len(drawn) == 2 and min(map(len, drawn.values())) >= 2:
            break
    print("drawn:", sorted(batches[:2] for batches in drawn.values()))
    for make in (lambda ds: MultiProcessRunnerZMQ(ds), lambda ds: MultiProcessMapData(ds, 1, lambda dp: dp)):
        try:
            make(MapData(Noise(), lambda dp: dp)).reset_state()
            print("runs")
        except pickle.PicklingError as error:
            print("must be picklable" in str(error))
    print("TensorFlow" if "tensorflow" in sys.modules else "data only")
"""
        )
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            env=python_environment(),
            timeout=60,
            check=False,
        )
        assert 0 == done.returncode, done.stderr.decode()
        lines = [line for line in done.stdout.decode().splitlines() if not line.startswith("[")][-4:]
        refused = "runs" if method == "fork" else "True"
        assert [f"drawn: {DRAWN}", refused, refused, "data only"] == lines
        assert b"Traceback" not in done.stderr


@pytest.mark.nightly
def test_memory_stays_flat():
    """After 10,000 large datapoints, the memory of parent and worker has grown by less than 5 %."""
    flow = ready(MultiProcessRunnerZMQ(FakeData([[600, 600]], 100, random=False, dtype="uint8"), 1))
    datapoints = itertools.chain.from_iterable(itertools.repeat(flow))
    for _ in itertools.islice(datapoints, 1000):
        pass
    processes = [psutil.Process(), *psutil.Process().children()]
    before = [p.memory_info().rss for p in processes]
    for _ in itertools.islice(datapoints, 10000):
        pass
    after = [p.memory_info().rss for p in processes]
    assert all(a < 1.05 * b for a, b in zip(after, before)), (before, after)


@pytest.mark.slow
def test_many_jobs_at_once():
    """Four processes with five runners each do not disturb each other."""
    processes = [multiprocessing.Process(target=_five_runners) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert 4 * [0] == [process.exitcode for process in processes]


def _five_runners():
    flows = [ready(MultiProcessRunnerZMQ(Five(), 1)) for _ in range(5)]
    for _ in range(3):
        for flow in flows:
            assert list(range(5)) == numbers(flow)


def test_arrays_may_be_kept_and_changed():
    """Arrays that are kept are writable and do not change later."""
    flow = ready(MultiProcessRunnerZMQ(DataFromGenerator(lambda: ([np.full((200, 200), k)] for k in range(100)))))
    kept = [array for (array,) in itertools.islice(flow, 300)]
    for array in kept:
        array += 1
    assert [k % 100 + 1 for k in range(300)] == [int(array.min()) for array in kept]
    assert all((array == array[0, 0]).all() for array in kept)
