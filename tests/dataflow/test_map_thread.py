"""Tests of worker threads that map."""

from __future__ import annotations

import os
import threading
import traceback
import weakref

import pytest
from fakes.reading import ready

from tensorpack_lite.dataflow.map_thread import MultiThreadMapData
from tensorpack_lite.dataflow.raw import DataFromList

SECONDS = 5  # whatever takes longer than this hangs


def six(datapoints=None):
    """Return a DataFlow of [0] to [5] in order."""
    return DataFromList([[k] for k in range(6)] if datapoints is None else datapoints, shuffle=False)


def square(dp):
    """Map [k] to [k * k]."""
    return [dp[0] ** 2]


def workers():
    """Return the running threads of MultiThreadMapData."""
    return [t for t in threading.enumerate() if t.name.startswith("MultiThreadMapData")]


class TestMapping:
    @pytest.mark.parametrize("num_thread", [1, 2, 4])
    def test_no_pass_loses_anything(self, num_thread):
        """200 strict passes of six datapoints with a buffer of three are complete."""
        flow = ready(MultiThreadMapData(six(), num_thread, square, buffer_size=3, strict=True))
        for _ in range(200):
            assert [0, 1, 4, 9, 16, 25] == sorted(dp[0] for dp in flow)

    def test_the_function_runs_in_all_threads(self):
        """The function runs in several threads at once."""
        barrier = threading.Barrier(2, timeout=SECONDS)

        def meet(dp):
            barrier.wait()
            return [threading.current_thread().name]

        flow = ready(MultiThreadMapData(six(), 2, meet, strict=True))
        assert {"MultiThreadMapData-0", "MultiThreadMapData-1"} == {dp[0] for dp in flow}

    @pytest.mark.parametrize("strict", [False, True])
    def test_the_source_is_not_changed(self, strict):
        """The function receives a shallow copy, so the source is unchanged."""
        stored = [[k] for k in range(6)]
        flow = ready(MultiThreadMapData(six(stored), 2, lambda dp: dp.append(1) or dp, strict=strict))
        assert {2} == {len(dp) for dp, _ in zip(flow, range(6))}
        assert [[k] for k in range(6)] == stored


class TestErrors:
    @pytest.mark.slow
    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize("num_thread", [1, 3])
    def test_it_names_the_stage_and_the_thread(self, strict, num_thread):
        """An error names the stage and the thread and keeps its type; its cause has the thread's traceback."""

        def fail_at_three(dp):
            if dp[0] == 3:
                raise ValueError("three is too much")
            return dp

        flow = ready(MultiThreadMapData(six(), num_thread, fail_at_three, strict=strict))
        where = (
            r"MultiThreadMapData: map_func fail_at_three failed at test_map_thread.py:\d+ "
            rf"in worker \d of {num_thread} \(pid {os.getpid()}\) on its datapoint \d+: three is too much"
        )
        with pytest.raises(ValueError, match=where) as caught:
            list(flow)
        cause = caught.value.__cause__
        assert "three is too much" == str(cause)
        assert "fail_at_three" in "".join(traceback.format_tb(cause.__traceback__))

    @pytest.mark.parametrize("error", [StopIteration(), SystemExit(0), KeyboardInterrupt(), GeneratorExit()])
    def test_exceptions_that_end_loops_and_programs(self, error):
        """Exceptions that would end a loop or a program become a RuntimeError."""

        def fail(dp):
            raise error

        flow = ready(MultiThreadMapData(six(), 2, fail))
        with pytest.raises(RuntimeError, match=f"map_func fail failed at .* in worker .*: {type(error).__name__}"):
            next(iter(flow))

    def test_an_error_overtakes_results(self):
        """An error is raised before results that are ready."""
        failed = threading.Event()

        def fail_at_50(dp):
            if dp[0] == 50:
                failed.set()
                raise ValueError("fifty")
            return dp

        source = DataFromList([[k] for k in range(100)], shuffle=False)
        flow = ready(MultiThreadMapData(source, 1, fail_at_50, buffer_size=99, strict=True))
        iterator = iter(flow)
        next(iterator)
        assert failed.wait(SECONDS)
        seen = 0
        with pytest.raises(ValueError, match="fifty"):
            for _ in iterator:
                seen += 1
        assert seen <= 1  # 1 if the thread was between the event and the error


class TestLife:
    def test_reset_again(self):
        """A second reset ends the old threads without processing waiting datapoints, and starts at the beginning."""
        slow, calls = threading.Event(), []

        def wait(dp):
            calls.append(dp)
            slow.wait(0 if slow.is_set() else 0.05)
            return dp

        flow = ready(MultiThreadMapData(six(), 1, wait, buffer_size=1000))  # 50 s of work
        next(iter(flow))
        (old,) = workers()
        flow._stop_workers()
        assert len(calls) < 500
        slow.set()
        ready(flow)
        assert not old.is_alive()
        assert list(range(6)) == [dp[0] for dp, _ in zip(flow, range(6))]

    def test_nothing_is_kept_alive(self):
        """A waiting thread holds no reference to its last datapoint or result, which may be large."""

        class Thing:
            pass

        pool = MultiThreadMapData(six(), 1, lambda dp: Thing())._start_pool()
        try:
            gone = threading.Event()
            pool.submit([1])
            result = pool.collect()
            weakref.finalize(result, gone.set)
            del result
            assert gone.wait(SECONDS)
        finally:
            pool.stop()

    def test_deleted_in_its_own_thread(self):
        """If map_func deletes the last reference to the DataFlow, the thread does not wait for itself."""
        holder, gone = [], threading.Event()

        def drop(dp):
            holder.clear()
            gone.set()
            return dp

        flow = MultiThreadMapData(six(), 1, drop, buffer_size=1)
        ready(flow)
        holder.append(flow)
        weak = weakref.ref(flow)
        flow._pool.submit([0])
        del flow
        assert gone.wait(SECONDS)
        for thread in workers():
            thread.join(SECONDS)
        holder.clear()
        assert weak() is None
