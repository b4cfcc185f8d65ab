"""Inputs that read ahead: a thread fills a queue of the graph, and each tower dequeues from it."""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import TensorSpec
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..dataflow.raw import how_to_wrap
from ..dataflow.repeat import RepeatedData
from ..loop.callback import Callback
from ..loop.callback_factory import CallbackFactory
from ..tfutils.placeholder import build_or_reuse_placeholder
from ..tfutils.summary import accumulate_op, add_moving_summary
from ..utils import logger
from ..utils.checks import check_at_least, check_type
from .base import FeedfreeInput
from .enqueue import EnqueueOps
from .enqueue import EnqueueThread as EnqueueThread
from .stream import Stream
from .whole_passes import WholePasses


class QueueInput(FeedfreeInput):
    """
    InputSource that enqueues the datapoints of a DataFlow in a thread. Each tower dequeues a different datapoint.

    The DataFlow is repeated without end, also across rounds of inference. There its length must be exact, so
    that each round sees the same data: a pass with fewer datapoints is an error.

    Args:
        ds: the DataFlow. It must not be used elsewhere. It is reset in `setup_graph` of the callbacks.
        queue: a TensorFlow queue with the components' dtypes. Default: a `FIFOQueue` of 50 datapoints.

    Attributes:
        ds: as given.
        queue: the queue, from `setup` on.
        thread: the `EnqueueThread`, from `setup` on; it runs from `before_train` to `after_train`.

    Raises:
        TypeError: `ds` is not a DataFlow, or `queue` is not a queue.
        ValueError: in `setup`: the model has no inputs, or `queue` has other dtypes.

    Note: if the DataFlow raises an exception, or a datapoint does not match the model, training uses all
    datapoints before it and then raises the error. Stat: `QueueInput/queue_size`, averaged with decay 0.5.
    Near 0, training waits for data; near 50, data waits for training. A DataFlow must not change an array
    after yielding it, because TensorFlow may use its memory until it is dequeued.

    Difference from tensorpack: if the DataFlow raises an exception, tensorpack ends training as if it had
    succeeded. Here training raises it. Up to 64 small datapoints wait in front of the queue, so the DataFlow
    is read further ahead.
    """

    _capacity = 50  # of the default queue

    def __init__(self, ds: DataFlow, queue: tf.QueueBase | None = None) -> None:
        name = type(self).__name__
        check_type(f"{name}: ds", ds, DataFlow, advice=how_to_wrap(ds, f"{name}({{}})"))
        if queue is not None:
            check_type(f"{name}: queue", queue, tf.QueueBase, "a TensorFlow queue")
        self.ds = ds
        self.queue: Any = queue
        self.thread: EnqueueThread
        self._stream: Stream
        self._needs_whole_passes = False

    def require_exact_size(self) -> None:
        """Make a pass with fewer datapoints than `len(ds)` an error."""
        self._needs_whole_passes = True

    def refill_queue(self) -> None:
        """
        Empty the queue and restart the DataFlow.

        Call it between steps of training, with a default session.

        Raises:
            RuntimeError: the thread is not running.
        """
        if not self.thread.is_alive():
            raise RuntimeError(
                f"{type(self).__name__}.refill_queue: the thread is not running. Call refill_queue() during training."
            )
        session = tf.get_default_session()
        self.thread.retire()
        while self.thread.is_alive():
            self._drain(session)
            self.thread.join(0.01)
        self._drain(session)
        self.flow.leave_pass()
        self.thread = self._make_thread()
        self.thread.start()

    def _drain(self, session: tf.Session) -> None:
        for _ in range(int(session.run(self._queue_size))):
            session.run(self._dequeue_for_reset)

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        name = type(self).__name__
        if not input_signature:
            raise ValueError(f"{name}: the model has no inputs (expected at least one).")
        self._signature = list(input_signature)
        self._datapoint_signature = self._make_datapoint_signature()
        placeholders = [build_or_reuse_placeholder(spec) for spec in self._datapoint_signature]
        if self.queue is not None:
            self.flow.no_position = "a queue of the user does not tell which datapoints were used"
        with self.cached_name_scope(), tf.device("/cpu:0"):
            if self.queue is None:
                self.queue = self._make_queue()
            dtypes = [p.dtype for p in placeholders]
            if self.queue.dtypes != dtypes:
                raise ValueError(
                    f"{name}: queue has the wrong dtypes (expected {[d.name for d in dtypes]}, got "
                    f"{[d.name for d in self.queue.dtypes]})."
                )
            self._ops = EnqueueOps(self.queue, placeholders)
            self._dequeue_for_reset = self.queue.dequeue(name="dequeue_for_reset")
            self._queue_size = tf.cast(self.queue.size(), tf.float32, name="queue_size")
            self._average_size = add_moving_summary(self._queue_size, collection=None, decay=0.5)
        passes = WholePasses(self.ds) if self._needs_whole_passes else self.ds
        # in the queue, between the threads, and in a staging area of 32 towers
        num_ahead = self._capacity + 128 + 32 * self._num_in_datapoint
        self._stream = self.flow.open(self.ds, RepeatedData(passes, -1), num_ahead)
        self.thread = self._make_thread()

    @property
    def _num_in_datapoint(self) -> int:
        """Number of elements of the queue that a tower takes."""
        return 1

    def _make_thread(self) -> EnqueueThread:
        who = type(self).__name__
        title = self.flow.name_input(who)
        thread = EnqueueThread(who, self.ds, self._datapoint_signature, self._ops, self._stream, title)
        self.flow.converter = thread.converter
        self.flow.threads = [thread.enqueuing, thread.reading]
        return thread

    def _make_datapoint_signature(self) -> list[tf.TensorSpec]:
        return self._signature

    def _make_queue(self) -> tf.QueueBase:
        dtypes = [spec.dtype for spec in self._signature]
        return tf.FIFOQueue(self._capacity, dtypes, name="input_queue")

    def _dequeue(self) -> tf.Tensor | list[tf.Tensor]:
        return self.queue.dequeue(name="input_deque")

    def _get_input_tensors(self) -> list[tf.Tensor]:
        with tf.device("/cpu:0"), self.cached_name_scope(), self.flow.taking(self._num_in_datapoint):
            tensors = self._dequeue()
        tensors = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
        for tensor, spec in zip(tensors, self._signature):
            tensor.set_shape(spec.shape)
        return tensors

    def _get_callbacks(self) -> list[Callback]:
        callbacks = self._thread_callbacks()
        callbacks += [_RunEachStep(accumulate_op(average)) for average in self._average_size]
        callbacks.append(CallbackFactory(setup_graph=lambda _: self._stream.reset()))
        return callbacks

    def _thread_callbacks(self) -> list[Callback]:
        return [_RunThread(self)]

    def _size(self) -> int:
        return len(self.ds)


class BatchQueueInput(QueueInput):
    """
    InputSource that enqueues single samples and dequeues batches, so that the DataFlow need not batch. Otherwise like
    QueueInput.

    Args:
        ds: a DataFlow of datapoints without batch axis.
        batch_size: samples in a batch, >= 1.
        queue: a TensorFlow queue with the samples' dtypes and fully defined shapes. Default: a `FIFOQueue` of
            3000 samples.

    Raises:
        ValueError: in `setup`: a dimension of an input other than the first is unknown, or the first is not
            `batch_size`.

    Note: when the data ends, the samples that do not fill a batch are dropped.
    """

    _capacity = 3000

    def __init__(self, ds: DataFlow, batch_size: int, queue: tf.QueueBase | None = None) -> None:
        super().__init__(ds, queue)
        self.batch_size = check_at_least("BatchQueueInput: batch_size", int(batch_size), 1)

    def _make_datapoint_signature(self) -> list[tf.TensorSpec]:
        for spec in self._signature:
            self._check_shape(spec)
        return [TensorSpec(spec.shape[1:], spec.dtype, f"{spec.name}-nobatch") for spec in self._signature]

    def _check_shape(self, spec: tf.TensorSpec) -> None:
        shape = tf.TensorShape(spec.shape)
        if not shape.rank or not shape[1:].is_fully_defined():
            raise ValueError(
                f"BatchQueueInput: input '{spec.name}' has shape {shape} (expected all dimensions but the first to be known). "
                "Set them in inputs(), or batch in the DataFlow and use QueueInput."
            )
        if not shape[:1].is_compatible_with([self.batch_size]):
            raise ValueError(
                f"BatchQueueInput: input '{spec.name}' has the wrong first dimension (expected batch_size {self.batch_size}, "
                f"got {shape})."
            )

    @property
    def _num_in_datapoint(self) -> int:
        return self.batch_size

    def _make_queue(self) -> tf.QueueBase:
        dtypes = [spec.dtype for spec in self._datapoint_signature]
        shapes = [spec.shape for spec in self._datapoint_signature]
        return tf.FIFOQueue(self._capacity, dtypes, shapes, name="input_queue")

    def _dequeue(self) -> tf.Tensor | list[tf.Tensor]:
        return self.queue.dequeue_many(self.batch_size, name="input_deque")

    def _size(self) -> int:
        return len(self.ds) // self.batch_size


class _RunThread(Callback):
    """Callback that starts and stops the thread of an input, and reports its error."""

    def __init__(self, source: QueueInput) -> None:
        self._source = source
        self._error_was_seen = False

    def _before_train(self) -> None:
        self._source.thread.start()

    def _after_train(self) -> None:
        self._source.thread.stop()
        self._source.flow.close(self)
        error = self._source.thread.error
        if error is not None and not self._error_was_seen:
            logger.warning(f"Training ended before it reached an error of the data: {type(error).__name__}: {error}")

    def background_error(self) -> BaseException | None:
        self._error_was_seen = True
        return self._source.thread.error or self._source.thread.interruption

    def interrupt(self) -> None:
        thread = self._source.thread
        if thread.is_alive() and not thread._sess.run(self._source._queue_size):
            thread.interrupt()


class _RunEachStep(Callback):
    """Callback that runs an operation in every run."""

    def __init__(self, op: tf.Operation) -> None:
        self._args = tf.train.SessionRunArgs(op)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        return self._args
