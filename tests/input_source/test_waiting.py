"""Tests for how long runs waited for data."""

from __future__ import annotations

import itertools
import threading
from time import perf_counter_ns
from types import SimpleNamespace

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.dataflow.meter import Meter
from tensorpack_lite.dataflow.records import COUNT
from tensorpack_lite.input_source import waiting
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.input_source.waiting import QueueWaits
from tensorpack_lite.loop.hooks import CallbackToHook
from tensorpack_lite.loop.observer import RunObserver
from tensorpack_lite.loop.session import HookedSession


@pytest.fixture
def graph():
    """A new default graph."""
    with tf.Graph().as_default() as graph:
        yield graph


class Fetched:
    """A step that fetches some operations."""

    def __init__(self, *fetches):
        self.fetches = fetches


class Source:
    """An input with a queue, whose thread the test plays: with `enqueue`, elements arrive at a time."""

    def __init__(self, queue, monkeypatch, num=1, max_chunk=1):
        self.queue, self._num_in_datapoint = queue, num
        self._ops = SimpleNamespace(size=queue.size(), max_chunk=max_chunk)
        self._enqueue, self.taken = queue.enqueue([7]), queue.dequeue()
        self.taking, self.other = Fetched(self.taken.op), Fetched(tf.no_op())
        self.monkeypatch = monkeypatch
        self.renew_thread()

    def renew_thread(self):
        """Begin a new thread."""
        self.thread = SimpleNamespace(on_enqueued=None, enqueuing=Meter("enqueuing"))

    def put(self, num):
        """Put elements into the queue in a call that does not return yet."""
        for _ in range(num):
            tf.get_default_session().run(self._enqueue)

    def enqueue(self, num, now=0):
        """Enqueue elements in a call that returns now."""
        self.put(num)
        self.end_call(num, now)

    def end_call(self, num, now):
        """End the call that has enqueued elements."""
        self.monkeypatch.setattr(waiting, "perf_counter_ns", lambda: now)
        self.thread.enqueuing.words[COUNT] += num
        if self.thread.on_enqueued is not None:
            self.thread.on_enqueued(self.thread.enqueuing.words[COUNT])

    def take(self, num):
        """Take elements."""
        for _ in range(num):
            tf.get_default_session().run(self.taken)


def waited(waits, *runs):
    """Return how long runs (started, ended, step) waited."""
    started, ended, steps = zip(*runs)
    result = waits.waited(np.array(started), np.array(ended), steps)
    return None if result is None else result.tolist()


class TestQueueWaits:
    @pytest.fixture
    def make(self, graph, monkeypatch):
        """Function: make a source with a queue, in a session."""
        with tf.Session(graph=graph):
            yield lambda queue=None, **options: Source(queue or tf.FIFOQueue(50, [tf.int64]), monkeypatch, **options)

    def test_a_run_waits_until_its_datapoint_arrives(self, make):
        """A run waited from its start until its datapoint arrived, and not at all if it was there before."""
        source = make()
        source.enqueue(1)
        waits = QueueWaits(source)
        source.enqueue(1, 240)
        source.enqueue(1, 310)
        source.take(3)
        runs = [(100, 110, source.taking), (200, 260, source.taking), (300, 350, source.taking)]
        assert [0, 40, 10] == waited(waits, *runs)

    def test_runs_that_take_nothing(self, make):
        """A run that does not need the input neither waits nor counts."""
        source = make()
        waits = QueueWaits(source)
        source.enqueue(1, 240)
        source.take(1)
        assert [0, 40] == waited(waits, (100, 250, source.other), (200, 260, source.taking))

    def test_several_elements(self, make):
        """A run that takes several elements waits for the last of them."""
        source = make(num=3)
        waits = QueueWaits(source)
        source.enqueue(1, 50)
        source.enqueue(3, 160)
        source.take(3)
        assert [60] == waited(waits, (100, 200, source.taking))

    def test_what_came_before_does_not_count(self, make):
        """Datapoints that any run took before the measurement begins are not counted."""
        source = make()
        source.enqueue(30)
        source.take(28)
        waits = QueueWaits(source)
        source.enqueue(1, 350)
        source.take(3)
        runs = [(100, 110, source.taking), (200, 210, source.taking), (300, 360, source.taking)]
        assert [0, 0, 50] == waited(waits, *runs)

    def test_a_call_that_waits_for_room(self, make):
        """Elements of a call that waits for room when the measurement begins are counted once."""
        source = make(max_chunk=16)
        source.put(4)  # of 6
        waits = QueueWaits(source)
        source.put(2)
        source.end_call(6, 150)
        source.take(6)
        source.enqueue(1, 240)
        source.take(1)
        runs = [(100 + k, 110 + k, source.taking) for k in range(6)]
        assert 40 == waited(waits, *runs, (200, 260, source.taking))[-1]

    @pytest.mark.parametrize("num", [1, 100])
    def test_a_call_that_returns_late(self, make, monkeypatch, num):
        """If a run has taken the datapoint of a call that has not returned yet, the call is waited for."""

        def take_early(now):
            """Take an element whose call returns during one of the next sleeps."""
            source.thread.enqueuing.begin_wait(is_for_room=True)
            source.put(1)
            source.take(1)
            sleeps = itertools.count(1)
            monkeypatch.setattr(waiting, "sleep", lambda _: end_call(now) if next(sleeps) == num else None)

        def end_call(now):
            source.end_call(1, now)
            source.thread.enqueuing.end_wait()

        source = make()
        take_early(90)
        waits = QueueWaits(source)
        take_early(240)
        assert [40] == waited(waits, (200, 260, source.taking))

    @pytest.mark.parametrize("num_sleeps", [0, 10])
    def test_calls_without_end(self, make, monkeypatch, num_sleeps):
        """Elements are counted soon if the call that enqueues waits for room, or if a call follows the other."""

        def sleep(_):
            slept.append(1)
            source.enqueue(1)

        slept = []
        source = make(tf.FIFOQueue(70, [tf.int64]), max_chunk=20)
        source.enqueue(40 if num_sleeps else 51)
        source.thread.enqueuing.begin_wait(is_for_room=True)
        monkeypatch.setattr(waiting, "sleep", sleep)
        QueueWaits(source)
        assert num_sleeps == len(slept)

    def test_a_call_that_has_not_returned(self, make):
        """If the call that enqueued has not returned yet, the run waited until its end."""
        source = make()
        waits = QueueWaits(source)
        source.put(1)
        source.take(1)
        assert [60] == waited(waits, (200, 260, source.taking))

    def test_another_consumer(self, make):
        """If others take from the queue, waiting times are not known."""
        source = make()
        waits = QueueWaits(source)
        source.enqueue(20, 10)
        source.take(20)
        runs = [(100 * k, 100 * k + 50, source.taking) for k in range(10)]
        assert waited(waits, *runs) is None

    def test_another_thread(self, make):
        """If the thread was replaced, waiting times are not known."""
        source = make()
        waits = QueueWaits(source)
        source.renew_thread()
        assert waited(waits, (100, 110, source.other)) is None

    def test_two_measurements(self, make):
        """A second measurement at the same time knows nothing; one after the first does."""
        source = make()
        first, second = QueueWaits(source), QueueWaits(source)
        run = (100, 110, source.other)
        assert waited(second, run) is None
        assert [0] == waited(first, run)
        assert [0] == waited(QueueWaits(source), run)

    @pytest.mark.parametrize(
        ("make_queue", "max_chunk"),
        [
            (lambda: tf.RandomShuffleQueue(50, 1, [tf.int64]), 1),
            (lambda: tf.FIFOQueue(10, [tf.int64]), 16),
        ],
    )
    def test_other_queues(self, make, make_queue, max_chunk):
        """Waiting times are not known for a queue in another order, or one that is smaller than a chunk."""
        source = make(make_queue(), max_chunk=max_chunk)
        assert waited(QueueWaits(source), (0, 1, source.other)) is None


class Times(RunObserver):
    """The times of runs, and what they ran."""

    def __init__(self):
        self.rows = []
        self.when_begun = lambda: None

    def begin_run(self, step):
        self.started = perf_counter_ns()
        self.when_begun()

    def end_run(self, step, succeeded):
        self.rows.append((self.started, perf_counter_ns(), step))


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
            for callback in callbacks:
                callback.before_train()
            try:
                num = 4 if kind == "staging" else 3
                for _ in range(num):
                    flow.gate.release()
                for _ in range(3):
                    hooked.run(total)
                waits, times = QueueWaits(getattr(source, "_input", source)), Times()
                hooked.observers.append(times)
                flow.gate.release()
                hooked.run(total)
                timer = threading.Timer(0.2, flow.gate.release)
                times.when_begun = timer.start
                hooked.run(total)
                timer.join()
                arrived = self.arrival(waits, num + 2)
                lengths = waited(waits, *times.rows)
                started, ended, _ = times.rows[-1]
                assert lengths[-1] == max(0, min(arrived, ended) - started)
                assert lengths[-1] > 0
            finally:
                flow.is_closed = True
                for callback in callbacks:
                    callback.after_train()

    @staticmethod
    def arrival(waits, num):
        """Wait until the datapoint of a number is in the queue, and return the time."""
        event = threading.Event()
        for _ in range(2000):
            arrivals = dict(waits._arrivals)
            if num in arrivals:
                return arrivals[num]
            event.wait(0.01)
        raise AssertionError("it did not come")
