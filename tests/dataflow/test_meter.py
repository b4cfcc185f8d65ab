"""Tests for the meters of stages: counts, own times, waiting times, and the records of workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from contextlib import suppress

import pytest
from fakes.reading import same
from fakes.waiting import wait_until

from tensorpack_lite.dataflow import meter as meters
from tensorpack_lite.dataflow import part_timing as part
from tensorpack_lite.dataflow.base import DataFlow, ProxyDataFlow
from tensorpack_lite.dataflow.batch import BatchData, BatchDataByShape
from tensorpack_lite.dataflow.map_and_batch import MultiProcessMapAndBatchData
from tensorpack_lite.dataflow.map_process import MultiProcessMapData
from tensorpack_lite.dataflow.map_thread import MultiThreadMapData
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.mix import ConcatData, JoinData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.records import COUNT, Page
from tensorpack_lite.dataflow.repeat import FixedSizeData, RepeatedData, RepeatedDataPoint
from tensorpack_lite.dataflow.runner import MultiProcessRunnerZMQ
from tensorpack_lite.dataflow.runner_thread import MultiThreadRunner
from tensorpack_lite.dataflow.shuffle import LocallyShuffleData

NUM = 12


def source(num=NUM):
    """A DataFlow of the datapoints [0], [1], ..."""
    return DataFromList([[k] for k in range(num)], shuffle=False)


def drop_odd(datapoint):
    """Drop every second datapoint."""
    return datapoint if datapoint[0] % 2 == 0 else None


def tree(meter):
    """Return the counts of a part: (count, [those of the sources])."""
    return meter.read().count, [tree(child) for child in meter.children]


def one_pass(flow):
    """Reset a DataFlow and take a pass. Return its meter."""
    flow.reset_state()
    for _ in flow:
        pass
    return flow._meter


class Clock:
    """A clock that advances only when it is told to."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """Replace the clocks of the meters, and time every datapoint."""
    clock = Clock()
    monkeypatch.setattr(meters, "perf_counter_ns", clock)
    monkeypatch.setattr(meters, "thread_time_ns", clock)
    monkeypatch.setattr(part, "perf_counter_ns", clock)
    monkeypatch.setattr(part, "_FIRST_TIMED", 1)
    for module in (meters, part):
        monkeypatch.setattr(module, "COST_NS", 0)
    return clock


class Work(ProxyDataFlow):
    """Takes `num` datapoints of its source for each one that it yields, and advances a clock."""

    def __init__(self, ds, clock, nanoseconds, num=1):
        super().__init__(ds)
        self._clock, self._nanoseconds, self._num = clock, nanoseconds, num

    def __iter__(self):
        source = iter(self.ds)
        while True:
            taken = [one for _, one in zip(range(self._num), source)]
            if len(taken) < self._num:
                return
            self._clock.now += self._nanoseconds
            yield taken[0]


class TestCounts:
    @pytest.mark.parametrize(
        ("build", "expected"),
        [
            (source, (12, [])),
            (lambda: MapData(source(), same), (12, [(12, [])])),
            (lambda: MapData(source(), drop_odd), (6, [(12, [])])),
            (lambda: BatchData(source(), 5), (2, [(12, [])])),
            (lambda: BatchData(source(), 5, remainder=True), (3, [(12, [])])),
            (lambda: BatchDataByShape(source(), 5, 0), (2, [(12, [])])),
            (lambda: RepeatedData(source(), 3), (36, [(36, [])])),
            (lambda: RepeatedDataPoint(source(), 3), (36, [(12, [])])),
            (lambda: FixedSizeData(source(), 20), (20, [(20, [])])),
            (lambda: FixedSizeData(LocallyShuffleData(source(), 4), 12), (12, [(12, [(16, [])])])),
            (lambda: ConcatData([source(3), source(4)]), (7, [(3, []), (4, [])])),
            (lambda: JoinData([source(4), source(4)]), (4, [(4, []), (4, [])])),
        ],
        ids=lambda value: "" if callable(value) else str(value),
    )
    def test_a_pass(self, build, expected):
        """After a pass, the count of each stage is the number of datapoints that it has given."""
        assert expected == tree(one_pass(build()))

    def test_several_passes(self):
        """Counts grow over passes, and a pass that is left counts what was given."""
        flow = MapData(source(), same)
        flow.reset_state()
        list(flow)
        assert [[0], [1]] == [one for _, one in zip(range(2), flow)]
        assert NUM + 2 == flow._meter.read().count

    def test_a_call_through_super(self):
        """A subclass that calls `__iter__` and `reset_state` of its base class is counted once."""

        class Twice(MapData):
            def reset_state(self):
                super().reset_state()

            def __iter__(self):
                yield from super().__iter__()

        assert (12, [(12, [])]) == tree(one_pass(Twice(source(), same)))

    def test_in_work(self):
        """While a stage works on a datapoint, its count is the number of that datapoint."""
        flow = MapData(source(), lambda dp: seen.append(flow._meter.read().count) or dp)
        seen = []
        one_pass(flow)
        assert list(range(1, NUM + 1)) == seen

    def test_a_datapoint_is_not_kept(self):
        """A meter holds no reference to the last datapoint."""

        class Item:
            alive = 0

            def __init__(self):
                Item.alive += 1

            def __del__(self):
                Item.alive -= 1

        class Items(DataFlow):
            def __iter__(self):
                return (Item() for _ in range(5))

        flow = Items()
        flow.reset_state()
        source = iter(flow)
        for _ in range(4):
            next(source)
            assert 0 == Item.alive


class TestTimes:
    def test_own_time(self, clock):
        """The own time of a stage is that of its datapoint without the time of its sources."""
        flow = Work(Work(source(), clock, 30), clock, 5)
        meter = one_pass(flow)
        assert (12, 60e-9) == (meter.read().num_timed, pytest.approx(meter.read().wall))
        inner = meter.children[0].read()
        assert (12, 360e-9) == (inner.num_timed, pytest.approx(inner.wall))
        assert 0 == meter.children[0].children[0].read().wall

    def test_several_sources(self, clock):
        """The time of each of several sources is its own."""
        meter = one_pass(JoinData([Work(source(), clock, 7), Work(source(), clock, 9)]))
        assert [0, 84e-9, 108e-9] == [pytest.approx(one.read().wall) for one in (meter, *meter.children)]

    def test_waiting_is_not_own_time(self, clock):
        """The time that a stage waits for its workers does not count as its own."""

        class Waits(ProxyDataFlow):
            def __iter__(self):
                for datapoint in self.ds:
                    self._meter.begin_wait()
                    clock.now += 100
                    self._meter.end_wait()
                    clock.now += 1
                    yield datapoint

        reading = one_pass(Waits(source())).read()
        assert (12e-9, 1200e-9) == (pytest.approx(reading.wall), pytest.approx(reading.waited_in))
        assert "working" == reading.state

    def test_an_interval(self, clock, monkeypatch):
        """If timing costs too much, one datapoint in N is timed, with the same mean time."""
        monkeypatch.setattr(part, "COST_NS", 100)
        reading = one_pass(Work(source(10000), clock, 1000)).read()
        assert 10000 == reading.count
        assert 200 < reading.num_timed < 500  # 2 stages * 100 ns is 0.5 % of 40 datapoints
        assert 1000e-9 == pytest.approx(reading.wall / reading.num_timed)

    def test_another_thread_is_not_timed(self, clock):
        """A source that another thread reads while a datapoint is timed is counted, but not timed."""

        class Thread(ProxyDataFlow):
            def __iter__(self):
                for _ in range(3):
                    taken = []
                    one = iter(self.ds)
                    thread = threading.Thread(target=lambda: taken.append(next(one)))  # noqa: B023
                    thread.start()
                    thread.join()
                    yield taken[0]

        meter = one_pass(Thread(Work(source(), clock, 10)))
        assert (3, 0) == meter.children[0].read()[2:4]
        assert 30e-9 == pytest.approx(meter.read().wall)


class TestWorkers:
    def take(self, flow, num):
        """Reset a DataFlow and take some datapoints, of several passes if necessary."""
        flow.reset_state()
        return [one for _, one in zip(range(num), RepeatedData(flow, -1))]

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_a_runner(self, method, monkeypatch):
        """The starter reads the counts of the stages in worker processes, with every start method."""
        context = multiprocessing.get_context(method)
        monkeypatch.setattr(multiprocessing, "Process", context.Process)
        monkeypatch.setattr(multiprocessing, "get_start_method", lambda: method)
        flow = MultiProcessRunnerZMQ(BatchData(source(), 3), 2, hwm=2)
        assert 40 == len(self.take(flow, 40))
        wait_until(lambda: all(len(process.read()) == 3 for process in flow._meter.processes))
        workers = [process.read() for process in flow._meter.processes]
        assert [["worker 0", "BatchData", "DataFromList"], ["worker 1", "BatchData", "DataFromList"]] == [
            [reading.name for reading in worker] for worker in workers
        ]
        assert [-1, -1, 1] == [reading.parent for reading in workers[0]]
        assert 40 <= sum(worker[0].count for worker in workers)
        for sent, batches, samples in workers:
            # two wait to be sent, one waits for room, and one is in work
            assert batches.count - 4 <= sent.count <= batches.count
            # the records are read one after the other, while the worker runs
            assert 3 * (batches.count - 1) <= samples.count <= 3 * (batches.count + 2)

    def test_a_map_with_processes(self):
        """The function of each worker has a record; together they have mapped what was submitted."""
        flow = MultiProcessMapData(source(40), 2, same, buffer_size=10, strict=True)
        assert 40 == len(self.take(flow, 40))
        functions = [process.read()[1] for process in flow._meter.processes]
        assert ["same", "same"] == [function.name for function in functions]
        # a strict map has filled its buffer for the next pass
        assert 40 <= sum(function.count for function in functions) <= 50
        assert (40, [(50, [])]) == tree(flow._meter)

    @pytest.mark.slow
    def test_map_and_batch(self):
        """The dispatcher and the mappers have their own records."""
        flow = MultiProcessMapAndBatchData(source(), 2, same, 4)
        self.take(flow, 5)
        wait_until(lambda: all(len(process.read()) == 2 for process in flow._meter.processes))
        names = [[reading.name for reading in process.read()] for process in flow._meter.processes]
        assert [["worker 0", "DataFromList"], ["worker 1", "same"], ["worker 2", "same"]] == names

    def test_a_map_with_threads(self):
        """The function of each thread has a meter, which knows that it waits for input."""
        flow = MultiThreadMapData(source(), 3, same, buffer_size=5, strict=True)
        assert NUM == len(self.take(flow, NUM))
        counts = [thread.read().count for thread in flow._meter.threads]
        assert 3 == len(counts)
        assert NUM <= sum(counts) <= NUM + 5
        wait_until(lambda: {thread.read().state for thread in flow._meter.threads} == {"waiting for input"})

    def test_a_runner_with_threads(self):
        """Each DataFlow of a runner with threads is a separate part, which waits for room."""
        flow = MultiThreadRunner(lambda: MapData(source(), same), 4, 2)
        self.take(flow, 5)
        threads = flow._meter.threads
        # those that were taken, those in the queue, and one in each thread
        wait_until(lambda: sum(thread.read().count for thread in threads) == 5 + 4 + 2)
        wait_until(lambda: [thread.read().state for thread in threads] == ["waiting for room"] * 2)
        counts = [tree(thread) for thread in threads]
        assert all(children == [(count, [])] for count, children in counts)

    def test_a_killed_worker_can_be_read(self):
        """The records of a worker can be read after SIGKILL."""
        flow = MultiProcessRunnerZMQ(source(), 1, hwm=2)
        self.take(flow, 5)
        worker = flow._meter.processes[0]
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.join()
        assert worker.read()[1].count >= 5

    def test_a_worker_that_hangs(self):
        """The starter sees which datapoint a worker works on while it hangs."""
        flow = MultiProcessMapData(source(), 1, stop_at_7, buffer_size=10)
        flow.reset_state()

        def iterate():
            with suppress(Exception):  # the pool is closed below
                list(flow)

        thread = threading.Thread(target=iterate, daemon=True)
        thread.start()
        worker = flow._meter.processes[0]
        wait_until(lambda: len(worker.read()) > 1 and worker.read()[1].count == 8)
        worker, function = worker.read()
        assert ("working", 7) == (worker.state, function.count - 1)
        flow._stop_workers()
        thread.join(20)

    def test_exact_resume_has_the_same_tree(self):
        """With a recorded position, stages are counted as well."""
        flow = BatchData(MapData(source(), same), 3)
        flow.set_state(None)
        assert (4, [(12, [(12, [])])]) == tree(one_pass(flow))


def stop_at_7(datapoint):
    """Hang at the datapoint [7]."""
    if datapoint[0] == 7:
        time.sleep(1000)
    return datapoint


class TestRecords:
    def test_a_full_page(self):
        """A page that is full gives records that only this process sees."""
        page = Page()
        records = [page.new_record(f"stage {k}") for k in range(40)]
        assert [*range(32), *[-1] * 8] == [number for _, number in records]
        records[31][0][COUNT] = 5
        records[39][0][COUNT] = 6
        readings = page.read()
        assert (32, 5) == (len(readings), readings[31].count)
        page.close_handle()
