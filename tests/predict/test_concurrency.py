"""MultiThreadAsyncPredictor: batches of the datapoints of many callers."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, wait

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.predict.base import OnlinePredictor, PredictorBase
from tensorpack_lite.predict.concurrency import MultiThreadAsyncPredictor


@pytest.fixture
def graph(sess):
    """x [n] -> y = 10 / x, an error for 0; total = sum of x; and the sizes of the batches."""
    x = tf.placeholder(tf.int32, [None], "x")
    tf.floordiv(10, x, name="y")
    tf.reduce_sum(x, name="total")
    tf.fill(tf.shape(x), tf.size(x), name="in_batch")
    return sess


@pytest.fixture
def make(graph):
    """Return a function that creates a predictor of the graph's outputs and starts it; stop all after the test."""
    made = []

    def build(outputs=("y",), number=1, batch_size=5, start=True):
        online = [OnlinePredictor(["x"], list(outputs), sess=graph) for _ in range(number)]
        made.append(MultiThreadAsyncPredictor(online, batch_size))
        if start:
            made[-1].start()
        return made[-1]

    yield build
    for one in made:
        one.stop()


class TestPredicting:
    def test_a_call(self, make):
        """A plain call waits for its outputs, which have no batch axis."""
        assert [5] == make()(2)

    def test_futures(self, make):
        """Each future returns the outputs of its datapoint."""
        predictor = make(number=2)
        futures = [predictor.put_task([i]) for i in range(1, 11)]
        assert [10 // i for i in range(1, 11)] == [future.result(10)[0] for future in futures]

    def test_batches(self, make):
        """Waiting datapoints are combined into batches of at most batch_size."""
        predictor = make(["in_batch"], start=False, batch_size=4)
        futures = [predictor.put_task([i]) for i in range(6)]
        predictor.start()
        assert [4, 4, 4, 4, 2, 2] == [future.result(10)[0] for future in futures]

    def test_callback(self, make):
        """The callback receives the future."""
        called: Future = Future()
        future = make().put_task([5], called.set_result)
        assert called.result(10) is future
        assert [2] == future.result()

    def test_many_callers(self, make):
        """Several threads can share a predictor."""
        predictor, outputs = make(number=2), {}

        def call(i):
            outputs[i] = predictor(i)[0]

        threads = [threading.Thread(target=call, args=(i,)) for i in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {i: 10 // i for i in range(1, 9)} == outputs

    def test_default_session(self, graph):
        """Predictors without a session use the default session at `start`."""
        predictor = MultiThreadAsyncPredictor([OnlinePredictor(["x"], ["y"])])
        predictor.start()
        assert [5] == predictor(2)
        predictor.stop()


class TestErrors:
    def test_the_future_has_the_error(self, make):
        """The future raises an error of the session, and the thread continues."""
        predictor = make()
        with pytest.raises(tf.errors.InvalidArgumentError, match="ivision by zero"):
            predictor(0)
        assert [5] == predictor(2)

    def test_other_datapoints_of_a_failing_batch(self, make):
        """The other datapoints of a failing batch get their outputs."""
        predictor = make(start=False)
        futures = [predictor.put_task([i]) for i in (1, 0, 2)]
        predictor.start()
        assert (10, 5) == (futures[0].result(10)[0], futures[2].result(10)[0])
        assert isinstance(futures[1].exception(10), tf.errors.InvalidArgumentError)

    def test_components(self, make):
        """A datapoint with a wrong number of components raises ValueError."""
        with pytest.raises(ValueError, match=r"components of a datapoint is wrong \(expected 1, got 2\)"):
            make()(1, 2)

    def test_output_without_batch(self, make):
        """An output without a batch axis raises ValueError."""
        with pytest.raises(ValueError, match=r"an output cannot be split \(expected shape \[1, ...\], .*got \(\)\)"):
            make(["total"])(1)

    def test_a_cancelled_future(self, make):
        """A cancelled future does not affect the others."""
        predictor = make(start=False)
        futures = [predictor.put_task([i]) for i in (1, 2)]
        assert futures[0].cancel()
        predictor.start()
        assert [5] == futures[1].result(10)

    def test_a_cancelled_session(self):
        """When the session is closed, futures are cancelled, and put_task raises RuntimeError."""

        class Closed(OnlinePredictor):
            def _do_call(self, dp):
                raise tf.errors.CancelledError(None, None, "closed")

        predictor = MultiThreadAsyncPredictor([Closed(["x"], ["y"], sess=None)])
        predictor._predictors[0].sess = object()
        futures = [predictor.put_task([i]) for i in range(9)]
        predictor.start()
        assert set() == wait(futures, 60).not_done
        assert all(future.cancelled() for future in futures)
        predictor._threads[0].join()
        with pytest.raises(RuntimeError, match="put_task: the predictor was stopped, or its session was closed"):
            predictor.put_task([1])


class TestStop:
    def test_what_waits_is_cancelled(self, make):
        """stop cancels the futures of waiting datapoints."""
        predictor = make(start=False)
        future = predictor.put_task([1])
        predictor.stop()
        with pytest.raises(CancelledError):
            future.result(10)

    def test_twice(self, make):
        """A second stop does nothing."""
        predictor = make()
        predictor.stop()
        predictor.stop()
        assert not predictor._threads[0].is_alive()

    def test_a_full_queue(self, make):
        """put_task raises RuntimeError if the predictor is stopped while it waits for room."""
        predictor = make(start=False)
        for _ in range(100):
            predictor.put_task([1])
        stopper = threading.Timer(0.1, predictor.stop)
        stopper.start()
        done = []
        with pytest.raises(RuntimeError, match="the predictor was stopped"):
            predictor.put_task([1], done.append)
        stopper.join()
        assert [True] == [future.cancelled() for future in done]

    def test_a_datapoint_taken_just_before_it(self, make, monkeypatch):
        """If a thread took the datapoint although the queue had ended, put_task returns its future."""
        predictor = make()
        put = predictor._tasks.put

        def put_and_wait(tasks):
            put(tasks)
            tasks[0].future.result(60)
            return False

        monkeypatch.setattr(predictor._tasks, "put", put_and_wait)
        assert [5] == predictor.put_task([2]).result()


class TestMistakes:
    def test_not_started(self, make):
        """A call before start raises RuntimeError instead of waiting."""
        with pytest.raises(RuntimeError, match=r"the worker threads are not running. Call start\(\) first"):
            make(start=False)(1)

    def test_no_session(self):
        """start without a session raises RuntimeError."""
        with pytest.raises(RuntimeError, match="a predictor has no session"):
            MultiThreadAsyncPredictor([OnlinePredictor(["x"], ["y"])]).start()

    def test_constructor(self, graph):
        """Each argument is checked."""
        with pytest.raises(ValueError, match="predictors is empty"):
            MultiThreadAsyncPredictor([])
        with pytest.raises(TypeError, match="expected OnlinePredictor, got int"):
            MultiThreadAsyncPredictor([1])
        with pytest.raises(ValueError, match="has return_input=True"):
            MultiThreadAsyncPredictor([OnlinePredictor(["x"], ["y"], return_input=True)])
        with pytest.raises(ValueError, match="expected at least 1, got 0"):
            MultiThreadAsyncPredictor([OnlinePredictor(["x"], ["y"])], 0)

    def test_it_is_a_predictor(self, make):
        """A MultiThreadAsyncPredictor is a PredictorBase."""
        assert isinstance(make(start=False), PredictorBase)
        np.testing.assert_array_equal([3], make()(3))
