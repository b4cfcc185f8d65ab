"""Tests of worker threads that map."""

from __future__ import annotations

import os
import threading
import traceback
import weakref
from collections import Counter

import numpy as np
import pytest

from tensorpack_lite.dataflow.map_thread import MultiThreadMapData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.repeat import FixedSizeData

SECONDS = 5  # whatever takes longer than this hangs


def six(datapoints=None):
    """Return a DataFlow of [0] to [5] in order."""
    return DataFromList([[k] for k in range(6)] if datapoints is None else datapoints, shuffle=False)


def reset(flow):
    """Reset a DataFlow and return it."""
    flow.reset_state()
    return flow


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
        flow = reset(MultiThreadMapData(six(), num_thread, square, buffer_size=3, strict=True))
        for _ in range(200):
            assert [0, 1, 4, 9, 16, 25] == sorted(dp[0] for dp in flow)

    def test_one_thread_keeps_the_order(self):
        """With one thread, results keep the order of the source over the end of a pass."""
        flow = reset(MultiThreadMapData(six(), 1, square, buffer_size=4))
        assert [0, 1, 4, 9, 16, 25, 0, 1] == [dp[0] for dp, _ in zip(flow, range(8))]

    def test_several_threads_repeat_the_data(self):
        """With several threads, the results are the datapoints pulled, except those in flight."""
        flow = reset(FixedSizeData(MultiThreadMapData(six(), 4, square, buffer_size=6), 600))
        seen = Counter(dp[0] for dp in flow)
        assert {0, 1, 4, 9, 16, 25} == set(seen)
        assert all(94 <= count <= 101 for count in seen.values())

    def test_the_function_runs_in_all_threads(self):
        """The function runs in several threads at once."""
        barrier = threading.Barrier(2, timeout=SECONDS)

        def meet(dp):
            barrier.wait()
            return [threading.current_thread().name]

        flow = reset(MultiThreadMapData(six(), 2, meet, strict=True))
        assert {"MultiThreadMapData-0", "MultiThreadMapData-1"} == {dp[0] for dp in flow}

    @pytest.mark.parametrize("strict", [False, True])
    def test_the_source_is_not_changed(self, strict):
        """The function receives a shallow copy, so the source is unchanged."""
        stored = [[k] for k in range(6)]
        flow = reset(MultiThreadMapData(six(stored), 2, lambda dp: dp.append(1) or dp, strict=strict))
        assert {2} == {len(dp) for dp, _ in zip(flow, range(6))}
        assert [[k] for k in range(6)] == stored

    def test_none_drops(self):
        """If not strict, None drops a datapoint."""
        flow = reset(MultiThreadMapData(six(), 1, lambda dp: dp if dp[0] % 2 else None))
        assert [1, 3, 5, 1, 3] == [dp[0] for dp, _ in zip(flow, range(5))]

    def test_dropping_everything_is_an_error(self):
        """A function that drops everything raises RuntimeError, instead of a hang."""
        flow = reset(MultiThreadMapData(six(), 2, lambda dp: None))
        with pytest.raises(RuntimeError, match="MultiThreadMapData: <lambda> returned None for a whole pass"):
            next(iter(flow))

    def test_arrays_as_datapoints(self):
        """Datapoints may be arrays."""
        source = DataFromList([np.arange(3) + k for k in range(6)], shuffle=False)
        flow = reset(MultiThreadMapData(source, 1, lambda array: array * 2, strict=True))
        np.testing.assert_array_equal([2 * (np.arange(3) + k) for k in range(6)], list(flow))

    def test_buffer_size_and_strict_have_to_be_named(self):
        """`buffer_size` and `strict` are keyword-only, as in tensorpack."""
        with pytest.raises(TypeError, match="positional"):
            MultiThreadMapData(six(), 1, square, 10)


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

        flow = reset(MultiThreadMapData(six(), num_thread, fail_at_three, strict=strict))
        where = (
            r"MultiThreadMapData: map_func fail_at_three failed at test_map_thread.py:\d+ "
            rf"in worker \d of {num_thread} \(pid {os.getpid()}\): three is too much"
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

        flow = reset(MultiThreadMapData(six(), 2, fail))
        with pytest.raises(
            RuntimeError, match=f"map_func fail failed at .* in worker .*: {type(error).__name__}"
        ):
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
        flow = reset(MultiThreadMapData(source, 1, fail_at_50, buffer_size=99, strict=True))
        iterator = iter(flow)
        next(iterator)
        assert failed.wait(SECONDS)
        seen = 0
        with pytest.raises(ValueError, match="fifty"):
            for _ in iterator:
                seen += 1
        assert seen <= 1  # 1 if the thread was between the event and the error

    def test_the_threads_continue_after_an_error(self):
        """After an error the threads continue with the next datapoint."""
        flow = reset(MultiThreadMapData(six(), 1, lambda dp: [10 // (3 - dp[0])], buffer_size=1))
        iterator = iter(flow)
        assert [3] == next(iterator)
        assert [5] == next(iterator)
        with pytest.raises(ZeroDivisionError):
            list(iterator)
        seen = [dp[0] for dp, _ in zip(flow, range(3))]
        assert {-10, -5, 3, 10} >= set(seen)

    def test_none_when_strict(self):
        """In strict mode, a function that returns None raises ValueError."""
        flow = reset(MultiThreadMapData(six(), 2, lambda dp: None, strict=True))
        with pytest.raises(ValueError, match="MultiThreadMapData: map_func returned None"):
            next(iter(flow))


class TestLife:
    def test_threads_run_from_reset_to_the_last_reference(self):
        """Threads run from `reset_state` until the DataFlow is deleted."""
        flow = MultiThreadMapData(six(), 3, square)
        assert [] == workers()
        reset(flow)
        assert 3 == len(workers())
        del flow
        assert [] == workers()

    def test_reset_again(self):
        """A second reset ends the old threads without processing waiting datapoints, and starts at the beginning."""
        slow, calls = threading.Event(), []

        def wait(dp):
            calls.append(dp)
            slow.wait(0 if slow.is_set() else 0.05)
            return dp

        flow = reset(MultiThreadMapData(six(), 1, wait, buffer_size=1000))  # 50 s of work
        next(iter(flow))
        (old,) = workers()
        flow._stop_workers()
        assert len(calls) < 500
        slow.set()
        reset(flow)
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
        reset(flow)
        holder.append(flow)
        weak = weakref.ref(flow)
        flow._pool.submit([0])
        del flow
        assert gone.wait(SECONDS)
        for thread in workers():
            thread.join(SECONDS)
        holder.clear()
        assert weak() is None

    def test_invalid_arguments(self):
        """A constructor that fails raises only its own error."""
        with pytest.raises(ValueError, match="num_thread is too small .expected at least 1, got 0"):
            MultiThreadMapData(six(), 0, square)
        with pytest.raises(TypeError, match="MultiThreadMapData: num_thread has the wrong type"):
            MultiThreadMapData(six(), map_func=square)
