"""Tests for how long runs waited for data."""

from __future__ import annotations

import threading
from collections import deque
from time import perf_counter_ns

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.input_source.waiting import QueueWaits
from tensorpack_lite.loop.hooks import CallbackToHook
from tensorpack_lite.loop.session import HookedSession, RunTimes


@pytest.fixture
def graph():
    """A new default graph."""
    with tf.Graph().as_default() as graph:
        yield graph


class Fetched:
    """A step that fetches some operations."""

    def __init__(self, *fetches):
        self.fetches = fetches


def runs_of(*runs):
    """The times of runs: (started, ended, step)."""
    return RunTimes.of(runs)


class TestQueueWaits:
    @pytest.fixture
    def queue(self, graph):
        """A queue, and an operation that takes from it."""
        queue = tf.FIFOQueue(50, [tf.int64])
        return queue, queue.dequeue().op

    def make(self, queue, num=1, max_chunk=1):
        """Waiting times of runs that take from the queue, from time 0 on."""
        waits = QueueWaits(queue[0], num, max_chunk)
        waits._begin = 0
        waits.add_tower(queue[1])
        return waits

    def test_a_run_waits_until_its_datapoint_arrives(self, queue):
        """A run waited from its start until its datapoint arrived, and not at all if it was there before."""
        taking = Fetched(queue[1])
        runs = runs_of((100, 110, taking), (200, 260, taking), (300, 350, taking))
        arrivals = deque([(1, 50), (2, 240), (3, 310)])
        assert [0, 40, 10] == self.make(queue).waited(runs, arrivals, 0).tolist()

    def test_runs_that_take_nothing(self, queue):
        """A run that does not need the input neither waits nor counts."""
        taking, other = Fetched(queue[1]), Fetched(tf.no_op())
        runs = runs_of((100, 110, other), (200, 260, taking))
        assert [0, 40] == self.make(queue).waited(runs, deque([(1, 240)]), 0).tolist()

    def test_several_elements(self, queue):
        """A run that takes several elements waits for the last of them."""
        runs = runs_of((100, 200, Fetched(queue[1])))
        assert [60] == self.make(queue, num=3).waited(runs, deque([(1, 50), (4, 160)]), 1).tolist()

    def test_several_calls(self, queue):
        """The number of elements that were taken continues over calls, and arrivals from before are removed."""
        waits, taking = self.make(queue), Fetched(queue[1])
        arrivals = deque([(1, 150), (2, 250)])
        assert [50] == waits.waited(runs_of((100, 160, taking)), arrivals, 1).tolist()
        assert [30] == waits.waited(runs_of((220, 260, taking)), arrivals, 0).tolist()
        assert [(2, 250)] == list(arrivals)

    def test_runs_outside_of_the_session(self, queue):
        """Datapoints that other runs of the input took are counted."""
        waits = self.make(queue)
        waits.count_taken(1)
        assert [50] == waits.waited(
            runs_of((200, 260, Fetched(queue[1]))), deque([(1, 150), (2, 250)]), 0
        ).tolist()

    def test_runs_without_times(self, queue):
        """A run without times counts as many datapoints as its fetches take."""
        waits = self.make(queue, num=2)
        taking, other = Fetched(queue[1]), Fetched(tf.no_op())
        waits.count_runs([taking, other, taking], since=10)
        arrivals = deque([(4, 150), (5, 240), (6, 250)])
        assert [50] == waits.waited(runs_of((200, 260, taking)), arrivals, 0).tolist()

    def test_begin_anew_among_runs_without_times(self, queue):
        """If a new thread began while runs had no times, waiting times are not known."""
        waits, taking = self.make(queue), Fetched(queue[1])
        waits._begin = 1000
        waits.count_runs([taking], since=999)
        assert waits.waited(runs_of((2000, 2100, taking)), deque([(1, 2030)]), 0) is None
        waits.begin_anew()
        waits._begin = 3000
        assert [30] == waits.waited(runs_of((4000, 4100, taking)), deque([(1, 4030)]), 0).tolist()

    def test_a_call_that_has_not_returned(self, queue):
        """If the call that enqueued has not returned yet, the run waited until its end."""
        assert [60] == self.make(queue).waited(runs_of((200, 260, Fetched(queue[1]))), deque(), 0).tolist()

    def test_another_consumer(self, queue):
        """If others take from the queue, waiting times are not known."""
        runs = runs_of(*[(100 * k, 100 * k + 50, Fetched(queue[1])) for k in range(10)])
        assert self.make(queue).waited(runs, deque([(20, 10)]), 0) is None

    def test_datapoints_that_arrived_too_long_ago(self, queue):
        """If the arrival of a datapoint is not remembered any more, its waiting time is NaN."""
        waits, taking = self.make(queue), Fetched(queue[1])
        waited = waits.waited(runs_of((100, 160, taking), (200, 300, taking)), deque([(2, 250)]), 0)
        assert [True, False] == np.isnan(waited).tolist()
        assert 50 == waited[1]

    def test_begin_anew(self, queue):
        """After `begin_anew`, elements are counted from zero; earlier runs are not known."""
        waits, taking = self.make(queue), Fetched(queue[1])
        waits.begin_anew()
        waits._begin = 1000
        waited = waits.waited(runs_of((100, 160, taking), (2000, 2100, taking)), deque([(1, 2030)]), 0)
        assert np.isnan(waited[0])
        assert 30 == waited[1]

    @pytest.mark.parametrize(
        ("make", "max_chunk"),
        [
            (lambda: tf.RandomShuffleQueue(50, 1, [tf.int64]), 1),
            (lambda: tf.FIFOQueue(10, [tf.int64]), 16),
        ],
    )
    def test_other_queues(self, graph, make, max_chunk):
        """Waiting times are not known for a queue in another order, or one that is smaller than a chunk."""
        queue = make()
        waits = self.make((queue, queue.dequeue().op), max_chunk=max_chunk)
        assert waits.waited(runs_of((0, 1, Fetched(tf.no_op()))), [], 0) is None


class Gated(DataFlow):
    """Yields a datapoint each time it is allowed to."""

    def __init__(self, shape):
        self.shape = shape
        self.gate = threading.Semaphore(0)
        self.is_closed = False

    def __iter__(self):
        while True:
            while not self.gate.acquire(timeout=0.05):
                if self.is_closed:
                    raise DataFlowTerminated
            yield [np.ones(self.shape, np.float32)]


class TestInputs:
    @pytest.mark.parametrize("kind", ["queue", "batch", "staging"])
    def test_an_injected_wait(self, graph, kind):
        """A run that starts before its datapoint exists waited until then; one that starts later did not wait."""
        flow = Gated([2] if kind == "batch" else [1, 2])
        source = {
            "queue": lambda: QueueInput(flow),
            "batch": lambda: BatchQueueInput(flow, 1),
            "staging": lambda: StagingInput(QueueInput(flow)),
        }[kind]()
        callbacks = source.setup([TensorSpec((1, 2), tf.float32, "x")])
        total = tf.reduce_sum(source.get_input_tensors()[0])
        for callback in callbacks:
            callback.setup_graph(None)
        with tf.Session() as session, session.as_default():
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            hooked = HookedSession(session, [CallbackToHook(callback) for callback in callbacks])
            hooked.record_times()
            for callback in callbacks:
                callback.before_train()
            try:
                num = 4 if kind == "staging" else 3
                for _ in range(num):
                    flow.gate.release()
                for _ in range(3):
                    hooked.run(total)
                timer = threading.Timer(0.2, flow.gate.release)
                timer.start()
                hooked.run(total)
                timer.join()
                arrived = self.arrival(source, num + 1)
                runs = hooked.take_times()
                waits = source._waited(runs)
                assert waits[-1] == max(0, min(arrived, runs.ended[-1]) - runs.started[-1])
                assert waits[-1] > 0
            finally:
                flow.is_closed = True
                for callback in callbacks:
                    callback.after_train()

    @staticmethod
    def arrival(source, num):
        """Return when the datapoint of a number, the last one, was in the queue."""
        arrivals = getattr(source, "_input", source).thread.arrivals
        TestInputs.wait_until(lambda: arrivals[-1][0] == num)
        return arrivals[-1][1]

    @staticmethod
    def wait_until(is_true):
        """Wait until something is true."""
        event = threading.Event()
        for _ in range(2000):
            if is_true():
                return
            event.wait(0.01)
        raise AssertionError("it did not become true")

    def test_a_fed_input(self, graph):
        """With FeedInput, a run waits while it reads its datapoint."""
        flow = Gated([1, 2])
        source = FeedInput(flow)
        callbacks = source.setup([TensorSpec((1, 2), tf.float32, "x")])
        total = tf.reduce_sum(source.get_input_tensors()[0])
        for callback in callbacks:
            callback.setup_graph(None)
        with tf.Session() as session, session.as_default():
            hooked = HookedSession(session, [CallbackToHook(callback) for callback in callbacks])
            hooked.record_times()
            assert [] == source._waited(runs_of()).tolist()  # from here on, it measures
            threading.Timer(0.3, flow.gate.release).start()
            begin = perf_counter_ns()
            hooked.run(total)
            flow.gate.release()
            hooked.run(total)
            runs = hooked.take_times()
            waits = source._waited(runs)
            assert [] == source._waited(runs_of()).tolist()
            flow.gate.release()
            hooked.run(total)
            last = hooked.take_times()
            later = source._waited(last)
        assert 1 == len(later)
        assert 0 < later[0] <= last.started[0] - runs.ended[-1]
        assert 2e8 < waits[0] <= runs.started[0] - begin
        assert waits[1] <= runs.started[1] - runs.ended[0]
