"""Tests of DataFlows that run in threads."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter

import pytest
from fakes.reading import ready, take

from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.runner_thread import MultiThreadRunner

SECONDS = 5  # whatever takes longer than this hangs


class Counting(DataFlow):
    """0 to 4, with counts of resets and datapoints pulled, and the names of the threads."""

    def __init__(self):
        self.resets, self.pulled, self.threads = 0, threading.Semaphore(0), set()

    def __iter__(self):
        for k in range(5):
            self.threads.add(threading.current_thread().name)
            self.pulled.release()
            yield k

    def __len__(self):
        return 5

    def reset_state(self):
        self.resets += 1


def five():
    """Return a DataFlow of 0 to 4 in order."""
    return DataFromList(list(range(5)), shuffle=False)


def workers():
    """Return the running threads of MultiThreadRunner."""
    return [t for t in threading.enumerate() if t.name.startswith("MultiThreadRunner")]


def failing(error, after=2):
    """Return a DataFlow that raises an error."""

    def gen():
        yield from range(after)
        raise error

    return DataFromGenerator(gen)


class TestPasses:
    def test_all_passes_read_one_stream(self):
        """A pass has the length of the DataFlow, and continues where the last one stopped."""
        flow = ready(MultiThreadRunner(five, 3, 1))
        assert 5 == len(flow)
        assert list(range(5)) == list(flow)
        assert [0, 1, 2] == take(flow, 3)
        assert [3, 4, 0, 1, 2] == list(flow)

    def test_each_thread_iterates_everything(self):
        """Each thread iterates its own DataFlow, and no datapoint is lost."""
        flows = [Counting() for _ in range(3)]
        remaining = iter(flows)
        flow = ready(MultiThreadRunner(lambda: next(remaining), 2, 3))
        seen = Counter(itertools.chain.from_iterable(list(flow) for _ in range(60)))
        assert {0, 1, 2, 3, 4} == set(seen)
        assert all(55 <= count <= 65 for count in seen.values())
        assert [{f"MultiThreadRunner-{k}"} for k in range(3)] == [ds.threads for ds in flows]

    def test_how_far_it_runs_ahead(self):
        """`num_prefetch` datapoints wait in the queue, and each thread holds one more."""
        source = Counting()
        flow = ready(MultiThreadRunner(lambda: source, 3, 1))
        take(flow, 2)
        for _ in range(2 + 3 + 1):
            assert source.pulled.acquire(timeout=SECONDS)
        assert not source.pulled.acquire(timeout=0.05)


class TestLife:
    def test_each_dataflow_is_reset_once(self):
        """Each DataFlow is reset once, in the thread that calls `reset_state`."""
        flows = []

        def build():
            flows.append(Counting())
            return flows[-1]

        flow = MultiThreadRunner(build, 2, 3)
        assert [0, 0, 0] == [ds.resets for ds in flows]
        list(ready(flow))
        assert [1, 1, 1] == [ds.resets for ds in flows]

    def test_threads_run_from_reset_to_the_last_reference(self):
        """Threads run from `reset_state` until the runner is deleted, also while the queue is full."""
        flow = MultiThreadRunner(five, 1, 3)
        assert [] == workers()
        ready(flow)
        take(flow, 1)
        assert 3 == len(workers())
        del flow
        assert [] == workers()


class TestErrors:
    def test_it_names_the_stage_and_the_thread(self):
        """An error names the stage and the thread, has the original as its cause, and ends all threads."""
        error = ValueError("bad record")
        flow = ready(MultiThreadRunner(lambda: failing(error), 5, 2))
        where = rf"MultiThreadRunner: its DataFlow failed in worker \d of 2 \(pid {os.getpid()}\): bad record"
        with pytest.raises(ValueError, match=where) as caught:
            list(flow)
        assert error is caught.value.__cause__
        with pytest.raises(ValueError, match=where):
            list(flow)
        for thread in workers():
            thread.join(SECONDS)
        assert [] == workers()

    @pytest.mark.slow
    def test_one_of_several_fails(self):
        """An error in one thread is raised although other threads yield datapoints."""
        flows = iter([five(), failing(OSError("no answer"), after=0), five()])
        flow = ready(MultiThreadRunner(lambda: next(flows), 5, 3))
        with pytest.raises(OSError, match=r"worker 1 of 3 .*no answer"):
            for _ in range(1000):
                list(flow)

    @pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt()])
    def test_exceptions_that_end_programs(self, error):
        """Exceptions that would end a program become a RuntimeError, instead of a hang."""
        flow = ready(MultiThreadRunner(lambda: failing(error), 5, 1))
        with pytest.raises(RuntimeError, match=f"failed in worker 0 .*: {type(error).__name__}"):
            list(flow)

    def test_data_that_was_closed(self):
        """DataFlowTerminated passes unchanged."""
        flow = ready(MultiThreadRunner(lambda: failing(DataFlowTerminated()), 5, 1))
        with pytest.raises(DataFlowTerminated):
            list(flow)

    def test_an_empty_dataflow(self):
        """An empty DataFlow raises RuntimeError instead of waiting forever."""
        flow = ready(MultiThreadRunner(lambda: DataFromList([]), 5, 1))
        with pytest.raises(RuntimeError, match="DataFromList yielded no datapoint in a whole pass"):
            take(flow, 1)
