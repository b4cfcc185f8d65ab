"""QueueInput and BatchQueueInput, as trainers and runners use them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from fakes.inputs import AfterUse, Numbers, driven

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow, DataFlowTerminated
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.common import get_tensors_by_names
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.train.base import Trainer

SIGNATURE = [TensorSpec([None], tf.float32, "x")]


def take(run, num):
    """Return the first number of each of the next datapoints."""
    return [int(run.next()[0][0]) for _ in range(num)]


class FirstNumber(MapData):
    """Yields single samples, for BatchQueueInput."""

    def __init__(self, ds):
        super().__init__(ds, lambda dp: [dp[0][0]])


class TestGraph:
    def test_names_of_operations(self, fresh_graph):
        """Operations have the names that scripts and saved graphs refer to; the placeholder has no scope."""
        source = QueueInput(Numbers())
        source.setup(SIGNATURE)
        tensors = [source.get_input_tensors()[0] for _ in range(2)]
        names = {op.name for op in fresh_graph.get_operations()}

        assert ["QueueInput/input_deque", "QueueInput/input_deque_1"] == [t.op.name for t in tensors]
        assert {
            "x",
            "QueueInput/input_queue",
            "QueueInput/dequeue_for_reset",
            "QueueInput/queue_size",
        } <= names
        assert "x_1" not in names

    def test_second_instance_and_callback_scope(self, fresh_graph):
        """Each input has a name scope, nested in the scope in which it is set up."""
        QueueInput(Numbers()).setup(SIGNATURE)
        QueueInput(Numbers()).setup(SIGNATURE)
        with tf.name_scope("InferenceRunner"):
            QueueInput(Numbers()).setup(SIGNATURE)
        queues = [op.name for op in fresh_graph.get_operations() if op.name.endswith("/input_queue")]

        assert queues == [
            "QueueInput/input_queue",
            "QueueInput_1/input_queue",
            "InferenceRunner/QueueInput/input_queue",
        ]

    def test_static_shapes_and_device(self):
        """Tensors have the shapes of the signature, and are on the CPU whatever the tower's device."""
        source = QueueInput(Numbers())
        source.setup([TensorSpec([None, 3], tf.float32, "x"), TensorSpec([], tf.int64, "y")])
        with TowerContext("tower0", is_training=True), tf.device("/gpu:0"):
            x, y = source.get_input_tensors()

        assert ([None, 3], [], tf.int64) == (x.shape.as_list(), y.shape.as_list(), y.dtype)
        assert "CPU:0" in x.device.upper()

    def test_summary_of_the_queue_size(self):
        """The summary of the queue size is in the collection of summaries; its update is not in a collection."""
        QueueInput(Numbers()).setup(SIGNATURE)

        assert ["QueueInput/queue_size-summary"] == [t.op.name for t in tf.get_collection(tf.GraphKeys.SUMMARIES)]
        assert [] == tf.get_collection("MOVING_SUMMARY_OPS")

    def test_setup_where_variables_are_reused(self):
        """Where variables are reused, setup works, without the summary."""
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            callbacks = QueueInput(Numbers()).setup(SIGNATURE)
        assert 3 == len(callbacks)
        assert [] == tf.get_collection(tf.GraphKeys.SUMMARIES)

    def test_queue_of_the_user(self):
        """A given queue is used."""
        queue = tf.FIFOQueue(3, [tf.float32])
        source = QueueInput(Numbers(), queue)
        with driven(source, SIGNATURE) as run:
            assert queue is source.queue
            assert [0, 1, 2, 3] == take(run, 4)


class TestArguments:
    def test_not_a_dataflow(self):
        """A list instead of a DataFlow raises a TypeError that names the class and gives advice."""
        with pytest.raises(
            TypeError,
            match=r"^QueueInput: ds .*expected DataFlow, got list\). Wrap it: QueueInput\(DataFromList\(data\)\)\.$",
        ):
            QueueInput([1])
        with pytest.raises(TypeError, match="^BatchQueueInput: ds .*expected DataFlow, got list"):
            BatchQueueInput([1], 2)

    def test_not_a_queue(self):
        """A list instead of a TensorFlow queue raises TypeError."""
        with pytest.raises(TypeError, match="QueueInput: queue .*expected a TensorFlow queue, got list"):
            QueueInput(Numbers(), [])

    def test_queue_of_other_dtypes(self):
        """The error for a queue with the wrong dtypes names both."""
        with pytest.raises(ValueError, match=r"queue has the wrong dtypes \(expected \['float32'\], got \['int32'\]\)"):
            QueueInput(Numbers(), tf.FIFOQueue(3, [tf.int32])).setup(SIGNATURE)

    def test_no_inputs(self):
        """A model without inputs raises ValueError."""
        with pytest.raises(ValueError, match="QueueInput: the model has no inputs"):
            QueueInput(Numbers()).setup([])

    def test_no_session(self):
        """Starting the thread without a default session raises RuntimeError."""
        source = QueueInput(Numbers())
        source.setup(SIGNATURE)
        with pytest.raises(RuntimeError, match="QueueInput: there is no default session"):
            source.thread.start()


class TestData:
    def test_in_order_and_repeated(self):
        """Datapoints arrive in order, none lost or doubled, and the DataFlow is repeated."""
        with driven(QueueInput(Numbers(7)), SIGNATURE) as run:
            assert [n % 7 for n in range(500)] == take(run, 500)

    def test_two_towers_take_different_datapoints(self):
        """Two towers together take each datapoint once."""
        source = _TwoTowers(Numbers(10))
        with driven(source, SIGNATURE) as run:
            pairs = [sorted(int(value[0]) for value in run.next()) for _ in range(5)]
        assert list(range(10)) == sorted(n for pair in pairs for n in pair)

    def test_small_and_large_mixed(self):
        """Large datapoints between small ones keep their place."""
        sizes = [1, 30000, 2, 3, 20000, 40000, 4]
        flow = DataFromList([[np.zeros(size, "float32")] for size in sizes], shuffle=False)
        with driven(QueueInput(flow), SIGNATURE) as run:
            assert sizes * 3 == [len(run.next()[0]) for _ in range(21)]

    def test_larger_than_the_buffer(self):
        """A datapoint that is larger than the buffer between the threads is enqueued."""
        flow = DataFromList([[np.full(2_000_000, n, "float32")] for n in range(2)], shuffle=False)
        with driven(QueueInput(flow), SIGNATURE) as run:
            assert [0, 1, 0] == take(run, 3)

    def test_dataflow_that_waits_for_training(self):
        """A DataFlow may wait until its last datapoint was used before it yields the next one."""
        used = threading.Event()
        with driven(QueueInput(AfterUse(used)), SIGNATURE) as run:
            for n in range(20):
                assert [n] == take(run, 1)
                used.set()
            used.set()

    def test_noncontiguous_and_unaligned_arrays(self):
        """Views, transposed and unaligned arrays arrive unchanged."""
        base = np.arange(12, dtype="float32").reshape(3, 4)
        unaligned = np.frombuffer(b"x" + base.tobytes(), "float32", offset=1).reshape(3, 4)
        flow = DataFromList([[base.T], [base[:, ::2]], [unaligned]], shuffle=False)
        with driven(QueueInput(flow), [TensorSpec([None, None], tf.float32, "x")]) as run:
            for expected in (base.T, base[:, ::2], base):
                np.testing.assert_array_equal(expected, run.next()[0])

    def test_dataflow_works_in_the_session(self):
        """The DataFlow runs with the training session and graph as defaults, e.g. for a predictor."""
        seen = []

        class Asks(DataFlow):
            def __iter__(self):
                seen.append((tf.get_default_session(), tf.get_default_graph()))
                yield [np.zeros(1, "float32")]

        with driven(QueueInput(Asks()), SIGNATURE) as run:
            run.next()
            assert (run.session, run.session.graph) == seen[0]

    def test_size_in_the_queue_is_averaged(self):
        """Each run of the hooked session updates the statistic of the queue size."""
        source = QueueInput(Numbers())
        with driven(source, SIGNATURE) as run:
            take(run, 3)
            assert 3 == run.session.run(_read(run.session.graph, "EMA/QueueInput/queue_size/local_step"))

    def test_refill(self):
        """refill_queue empties the queue and restarts the DataFlow, any number of times."""
        flow = Numbers(1000)
        source = QueueInput(flow)
        with driven(source, SIGNATURE) as run:
            with run.session.as_default():
                for _ in range(3):
                    assert [0, 1, 2] == take(run, 3)
                    source.refill_queue()
                assert [0, 1, 2] == take(run, 3)
        assert 1 == flow.resets
        with pytest.raises(RuntimeError, match="refill_queue: the thread is not running"):
            source.refill_queue()


def _read(graph, name):
    with graph.as_default():
        return get_tensors_by_names([name])[0]


class _TwoTowers(QueueInput):
    """Returns the tensors of two towers at once."""

    def _get_input_tensors(self):
        return [*super()._get_input_tensors(), *super()._get_input_tensors()]


class TestErrors:
    def test_good_datapoints_come_first(self):
        """All datapoints before an error are used; then the run raises it with type, stage and cause."""
        error = KeyError("planted")
        with driven(QueueInput(Numbers(60, error)), SIGNATURE) as run:
            assert list(range(60)) == take(run, 60)
            with pytest.raises(KeyError, match="QueueInput: the DataFlow Numbers failed: planted") as caught:
                run.next()
            assert error is caught.value.__cause__

    def test_error_while_training_waits(self):
        """An error ends a dequeue that waits for data."""
        go = threading.Event()

        class FailsLater(DataFlow):
            def __iter__(self):
                go.wait(60)
                raise KeyError("planted")
                yield

        with driven(QueueInput(FailsLater()), SIGNATURE) as run:
            timer = threading.Timer(0.05, go.set)
            timer.start()
            with pytest.raises(KeyError, match="planted"):
                run.next()
            timer.join()

    def test_empty_dataflow(self):
        """A pass without datapoints is an error."""
        with driven(QueueInput(Numbers(0)), SIGNATURE) as run:
            with pytest.raises(RuntimeError, match="QueueInput: the DataFlow Numbers failed"):
                run.next()

    def test_error_of_the_queue(self):
        """A run raises the error of the user's queue for a datapoint that matches only the model."""
        queue = tf.FIFOQueue(3, [tf.float32], [[3]])
        with driven(QueueInput(Numbers(), queue), SIGNATURE) as run:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"[Ss]hape"):
                run.next()

    def test_late_error_is_logged(self, log_lines):
        """An error that comes after the last step is logged."""
        source = QueueInput(Numbers(3, KeyError("planted")))
        with driven(source, SIGNATURE) as run:
            take(run, 2)
            source.thread.join(30)
        assert ["Training ended before it reached an error of the data"] == [text.split(":")[0] for text in log_lines]

    def test_training_ends_quietly_with_the_data(self):
        """DataFlowTerminated ends training without an error."""
        assert 3 == _train(QueueInput(Numbers(3, DataFlowTerminated())), steps=100).global_step


class TestEnd:
    def test_after_train_without_before_train(self):
        """after_train works if training failed before the thread was started."""
        for cb in QueueInput(Numbers()).setup(SIGNATURE):
            cb.after_train()

    def test_after_train_with_a_closed_session(self, sess):
        """after_train works with a closed session."""
        callbacks = QueueInput(Numbers()).setup(SIGNATURE)
        for cb in callbacks:
            cb.before_train()
        sess.close()
        for cb in callbacks:
            cb.after_train()

    def test_dataflow_that_hangs(self, monkeypatch):
        """Training ends although the DataFlow hangs; its thread keeps running."""
        monkeypatch.setattr("tensorpack_lite.input_source.enqueue._JOIN_SECONDS", 0.05)
        go = threading.Event()

        class Hangs(DataFlow):
            def __iter__(self):
                yield [np.zeros(1, "float32")]
                go.wait(60)

        source = QueueInput(Hangs())
        with driven(source, SIGNATURE) as run:
            take(run, 1)
        assert source.thread.is_alive()
        go.set()
        source.thread.join(30)

    def test_ctrl_c(self):
        """KeyboardInterrupt ends training and the thread."""

        class Interrupts(Callback):
            def _trigger_step(self):
                if self.local_step == 2:
                    raise KeyboardInterrupt

        source = QueueInput(Numbers())
        with pytest.raises(KeyboardInterrupt):
            _train(source, steps=10, callbacks=[Interrupts()])
        assert not source.thread.is_alive()


def _train(source, steps, callbacks=()):
    trainer = Trainer()
    trainer.register_callback(source.setup(SIGNATURE))
    trainer.train_op = tf.reduce_sum(source.get_input_tensors()[0]).op
    trainer.train_with_defaults(
        callbacks=list(callbacks), monitors=[], extra_callbacks=[], steps_per_epoch=steps, max_epoch=1
    )
    return trainer


class TestBatchQueueInput:
    def test_batches_in_order(self):
        """Samples are batched in order, across the ends of passes."""
        with driven(BatchQueueInput(FirstNumber(Numbers(5)), 2), SIGNATURE) as run:
            values = [run.next()[0].tolist() for _ in range(5)]
        assert [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]] == values

    def test_graph(self, fresh_graph):
        """Placeholders have the shape of a sample, and tensors that of a batch."""
        source = BatchQueueInput(Numbers(), 4)
        source.setup([TensorSpec([None, 3], tf.float32, "x")])
        (x,) = source.get_input_tensors()

        assert "BatchQueueInput/input_deque" == x.op.name
        assert [4, 3] == x.shape.as_list()
        assert [3] == fresh_graph.get_tensor_by_name("x-nobatch:0").shape.as_list()

    def test_wrong_sample(self):
        """A sample is checked against the shape without the batch axis, and the error names BatchQueueInput."""
        with driven(BatchQueueInput(Numbers(), 2), SIGNATURE) as run:
            with pytest.raises(
                ValueError,
                match=r"BatchQueueInput: component 0 'x-nobatch' has the wrong shape .*got float32 \(2,\)",
            ):
                run.next()

    @pytest.mark.parametrize("shape", [[None, None], [], None, [None, 3, None]])
    def test_unknown_dimensions(self, shape):
        """All dimensions but the first must be known."""
        with pytest.raises(
            ValueError, match=r"input 'x' has shape .* \(expected all dimensions but the first to be known\)"
        ):
            BatchQueueInput(Numbers(), 2).setup([TensorSpec(shape, tf.float32, "x")])

    def test_other_batch_size_in_the_signature(self):
        """A fixed first dimension other than batch_size raises ValueError."""
        with pytest.raises(ValueError, match=r"wrong first dimension \(expected batch_size 2, got \(3,\)\)"):
            BatchQueueInput(Numbers(), 2).setup([TensorSpec([3], tf.float32, "x")])

    def test_batch_size_below_one(self):
        """A batch size of 0 raises ValueError."""
        with pytest.raises(ValueError, match=r"batch_size is too small \(expected at least 1, got 0\)"):
            BatchQueueInput(Numbers(), 0)

    def test_error(self):
        """Errors are raised as by QueueInput; samples that do not fill a batch are dropped."""
        flow = FirstNumber(Numbers(5, KeyError("planted")))
        with driven(BatchQueueInput(flow, 2), SIGNATURE) as run:
            assert [[0, 1], [2, 3]] == [run.next()[0].tolist() for _ in range(2)]
            with pytest.raises(KeyError, match="BatchQueueInput: the DataFlow FirstNumber failed: planted"):
                run.next()

    def test_size(self):
        """The size is the number of full batches in a pass."""
        assert 2 == BatchQueueInput(Numbers(5), 2).size()
