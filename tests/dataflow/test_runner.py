"""A DataFlow that runs in other processes."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import tensorpack_lite
from tensorpack_lite.dataflow import (
    BatchData,
    DataFlow,
    DataFromGenerator,
    DataFromList,
    FakeData,
    MapData,
    MultiProcessPrefetchData,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    PrefetchData,
    PrefetchDataZMQ,
    RNGDataFlow,
)
from tensorpack_lite.utils.utils import fix_rng_seed

DRAWN = "[[[655444, 1765292], [63472, 1014542]], [[1477168, 1781982], [708948, 1844730]]]"  # by two workers after fix_rng_seed(1), twice two numbers each
BOTH = [lambda ds, n=1: MultiProcessRunner(ds, 4, n), lambda ds, n=1: MultiProcessRunnerZMQ(ds, n)]
both = pytest.mark.parametrize("make", BOTH, ids=["MultiProcessRunner", "MultiProcessRunnerZMQ"])


class Five(DataFlow):
    """0 to 4, and who made them."""

    def __init__(self):
        self.reset_by = []

    def reset_state(self):
        self.reset_by.append(os.getpid())

    def __len__(self):
        return 5

    def __iter__(self):
        for k in range(5):
            yield [k, os.getpid(), list(self.reset_by)]


class Draws(RNGDataFlow):
    """Random numbers."""

    def __iter__(self):
        while True:
            yield [int(self.rng.randint(10**9))]


class SlowAfterTwo(DataFlow):
    """The third never comes."""

    def __iter__(self):
        yield [0]
        yield [1]
        time.sleep(1000)


def identity(datapoint):
    """Can be pickled."""
    return datapoint


def ready(flow):
    """After its reset."""
    flow.reset_state()
    return flow


def numbers(datapoints):
    """The first components."""
    return [datapoint[0] for datapoint in datapoints]


class TestPasses:
    @both
    def test_one_worker_keeps_order_and_content(self, make):
        """Two whole passes."""
        flow = ready(make(Five()))
        assert 2 * [list(range(5))] == [numbers(flow) for _ in range(2)]

    @both
    def test_passes_are_cuts_of_one_stream(self, make):
        """After a `break` the next pass goes on where this one stopped, and is as long as always."""
        flow = ready(make(Five()))
        assert [0, 1, 2] == numbers(itertools.islice(flow, 3))
        assert [3, 4, 0, 1, 2] == numbers(flow)

    @both
    def test_several_workers_each_run_all(self, make):
        """Each number comes as often from each."""
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
        """And `len` says so in the usual way."""
        flow = ready(make(DataFromGenerator(Five)))
        with pytest.raises(NotImplementedError):
            len(flow)
        assert 13 == len(list(itertools.islice(flow, 13)))

    @both
    def test_length(self, make):
        """That of `ds`."""
        assert 5 == len(make(Five(), 2))

    def test_two_iterations_at_once_are_refused(self):
        """At the first `next`; dropping the first one helps."""
        flow = ready(MultiProcessRunnerZMQ(Five()))
        one = iter(flow)
        next(one)
        with pytest.raises(RuntimeError, match="is being iterated already"):
            next(iter(flow))
        del one
        assert 5 == len(list(flow))

    def test_the_older_one_may_be_iterated_twice(self):
        """The iterators share the stream."""
        flow = ready(MultiProcessRunner(Five(), 2, 1))
        one, two = iter(flow), iter(flow)
        assert [0, 1, 2, 3] == [next(i)[0] for i in (one, two, one, two)]

    def test_what_is_there_is_not_held_back(self):
        """Datapoints do not wait for their neighbours to fill a message."""
        flow = ready(MultiProcessRunnerZMQ(SlowAfterTwo()))
        assert [0, 1] == numbers(itertools.islice(flow, 2))


class TestReset:
    @both
    def test_only_the_worker_resets(self, make):
        """Once, in its own process."""
        source = Five()
        flow = ready(make(source))
        _, pid, reset_by = next(iter(flow))
        assert [] == source.reset_by
        assert [pid] == reset_by
        assert os.getpid() != pid

    @both
    def test_a_second_one_is_refused(self, make):
        """Its workers run already."""
        flow = ready(make(Five()))
        with pytest.raises(RuntimeError, match="reset_state.. was called twice"):
            flow.reset_state()

    @both
    def test_iterating_before_it_is_refused(self, make):
        """With the sentence that helps."""
        with pytest.raises(RuntimeError, match="its workers are not started. Call reset_state"):
            next(iter(make(Five())))


class TestArguments:
    @pytest.mark.parametrize(
        ("make", "text"),
        [
            (
                lambda: MultiProcessRunnerZMQ(Five(), 0),
                "MultiProcessRunnerZMQ: num_proc must be at least 1, got 0",
            ),
            (lambda: MultiProcessRunnerZMQ(Five(), 1, 0), "hwm must be at least 1, got 0"),
            (
                lambda: MultiProcessRunner(Five(), 0, 1),
                "MultiProcessRunner: num_prefetch must be at least 1, got 0",
            ),
            (lambda: MultiProcessRunner(Five(), 1, -1), "num_proc must be at least 1, got -1"),
        ],
    )
    def test_numbers_below_one(self, make, text):
        """Are refused by name."""
        with pytest.raises(ValueError, match=text):
            make()

    @both
    def test_no_dataflow(self, make):
        """The usual sentence."""
        with pytest.raises(TypeError, match="takes a DataFlow, got list"):
            make([1])

    def test_old_names(self):
        """Scripts of before 0.9 use them."""
        assert MultiProcessPrefetchData is PrefetchData is MultiProcessRunner
        assert PrefetchDataZMQ is MultiProcessRunnerZMQ


class TestNesting:
    def test_a_runner_in_a_runner(self):
        """The inner one's workers are children of the outer one's."""
        flow = ready(MultiProcessRunnerZMQ(MultiProcessRunner(Five(), 2, 1)))
        assert list(range(5)) == numbers(flow)

    def test_threads_and_batches_in_a_runner(self):
        """As the guide recommends."""
        inner = MultiThreadMapData(
            DataFromList([[k] for k in range(5)]), 2, identity, buffer_size=3, strict=True
        )
        flow = ready(MultiProcessRunnerZMQ(BatchData(inner, 5)))
        assert list(range(5)) == sorted(next(iter(flow))[0])


class TestSeed:
    def test_a_run_repeats_itself_and_workers_differ(self):
        """By fork."""
        runs = []
        for _ in range(2):
            fix_rng_seed(5)
            flow = ready(MultiProcessRunnerZMQ(Draws(), 1))
            runs.append(list(itertools.islice(flow, 5)))
            flow = ready(MultiProcessRunnerZMQ(Draws(), 1))
            runs.append(list(itertools.islice(flow, 5)))
        assert (runs[0], runs[1]) == (runs[2], runs[3])
        assert runs[0] != runs[1]


@pytest.mark.slow
class TestStartMethods:
    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_a_pipeline_of_five_stages(self, method, tmp_path):
        """With a seed each worker draws its own numbers, the same in each run; a lambda is refused where it cannot go."""
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
        environment = dict(os.environ, PYTHONPATH=str(Path(tensorpack_lite.__file__).parents[1]))
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, env=environment, timeout=60, check=False
        )
        assert 0 == done.returncode, done.stderr.decode()
        lines = [line for line in done.stdout.decode().splitlines() if not line.startswith("[")][-4:]
        refused = "runs" if method == "fork" else "True"
        assert [f"drawn: {DRAWN}", refused, refused, "data only"] == lines
        assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_memory_stays_flat():
    """10,000 large datapoints: parent and worker grow by less than 5 %."""
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
    """Four processes with five runners each do not get in each other's way."""
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


def test_it_can_be_pickled_before_reset():
    """And its class is found again under its name."""
    flow = pickle.loads(pickle.dumps(MultiProcessRunnerZMQ(MapData(DataFromList([[1]]), identity))))
    assert [[1]] == list(ready(flow))


def test_arrays_may_be_kept_and_changed():
    """A thousand of them: none changes under the user, and all are writable."""
    flow = ready(
        MultiProcessRunnerZMQ(DataFromGenerator(lambda: ([np.full((200, 200), k)] for k in range(100))))
    )
    kept = [array for (array,) in itertools.islice(flow, 300)]
    for array in kept:
        array += 1
    assert [k % 100 + 1 for k in range(300)] == [int(array.min()) for array in kept]
    assert all((array == array[0, 0]).all() for array in kept)
