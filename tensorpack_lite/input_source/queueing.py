"""Data through a queue: a thread enqueues, each tower dequeues; training waits only when data is slower than it."""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import TensorSpec
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..loop.callback import Callback, CallbackFactory
from ..tfutils.placeholder import build_or_reuse_placeholder
from ..tfutils.summary import add_moving_summary
from ..utils import logger
from ..utils.errors import type_error
from .base import FeedfreeInput
from .enqueue import EnqueueOps, EnqueueThread

__all__ = ["BatchQueueInput", "EnqueueThread", "QueueInput"]


class QueueInput(FeedfreeInput):
    """
    Enqueue the datapoints of a DataFlow in a thread; each tower dequeues its own.

    The DataFlow is repeated without end, also across rounds of inference: there its length must be exact for each round to
    see the same data. In inference, a pass with fewer datapoints than its length is an error.

    Args:
        ds: the DataFlow. It must not be used elsewhere; it is reset when the callbacks are set up.
        queue: a TensorFlow queue with the components' dtypes; None means a `FIFOQueue` of 50.

    Attributes:
        ds: as given.
        queue: the queue, from `setup` on.
        thread: the `EnqueueThread`, from `setup` on; it runs from `before_train` to `after_train`.

    Raises:
        TypeError: `ds` is no DataFlow, `queue` no queue.
        ValueError: in `setup`: the model has no inputs, or `queue` has other dtypes.

    Note: an exception of the DataFlow, or a datapoint that does not fit the model, ends training: all datapoints before
    it are used, then the run raises it. Stat: `QueueInput/queue_size`, averaged with decay 0.5. At 0, training waits for
    data; near 50, data waits for training. An array that was given away must not be changed any more: TensorFlow may
    borrow its memory as long as it is queued.

    tensorpack: same; there an exception of the DataFlow passes for the end of training. Up to 64 small datapoints
    wait in front of the queue, so the DataFlow is read that much further ahead.
    """

    def __init__(self, ds: DataFlow, queue: Any = None) -> None:
        name = type(self).__name__
        if not isinstance(ds, DataFlow):
            raise type_error(name, "a DataFlow", ds, f"Wrap it: {name}(DataFromList(data)).")
        if queue is not None and not isinstance(queue, tf.QueueBase):
            raise type_error(f"{name}: queue", "a TensorFlow queue", queue)
        self.ds = ds
        self.queue = queue
        self.thread: EnqueueThread
        self._needs_whole_passes = False

    def require_exact_size(self) -> None:
        """Make a pass with fewer datapoints than `len(ds)` an error."""
        self._needs_whole_passes = True

    def refill_queue(self) -> None:
        """
        Throw away what is in the queue and begin the DataFlow anew.

        To be called between steps, with a default session, while training.

        Raises:
            RuntimeError: the thread does not run.
        """
        if not self.thread.is_alive():
            raise RuntimeError(
                f"{type(self).__name__}.refill_queue: its thread does not run, there is nothing to refill."
            )
        session = tf.get_default_session()
        self.thread.retire()
        while self.thread.is_alive():
            self._drain(session)
            self.thread.join(0.01)
        self._drain(session)
        self.thread = self._make_thread()
        self.thread.start()

    def has_datapoints(self) -> bool:
        """Tell whether datapoints wait in the queue, while training."""
        return bool(self.thread._sess.run(self._queue_size))

    def _drain(self, session: Any) -> None:
        for _ in range(int(session.run(self._queue_size))):
            session.run(self._dequeue_for_reset)

    def _setup(self, input_signature: Sequence[Any]) -> None:
        name = type(self).__name__
        if not input_signature:
            raise ValueError(f"{name}: the model has no inputs, so there is nothing to enqueue.")
        self._signature = list(input_signature)
        self._datapoint_signature = self._make_datapoint_signature()
        placeholders = [build_or_reuse_placeholder(spec) for spec in self._datapoint_signature]
        with self.cached_name_scope(), tf.device("/cpu:0"):
            if self.queue is None:
                self.queue = self._make_queue()
            self._check_queue()
            self._ops = EnqueueOps(self.queue, placeholders)
            self._dequeue_for_reset = self.queue.dequeue(name="dequeue_for_reset")
            self._queue_size = tf.cast(self.queue.size(), tf.float32, name="queue_size")
            self._average_size = add_moving_summary(self._queue_size, collection=None, decay=0.5)
        self.thread = self._make_thread()

    def _make_thread(self) -> EnqueueThread:
        return EnqueueThread(
            type(self).__name__, self.ds, self._datapoint_signature, self._ops, self._needs_whole_passes
        )

    def _make_datapoint_signature(self) -> list[Any]:
        return self._signature

    def _make_queue(self) -> Any:
        return tf.FIFOQueue(50, [spec.dtype for spec in self._signature], name="input_queue")

    def _check_queue(self) -> None:
        wanted = [spec.dtype for spec in self._signature]
        if self.queue.dtypes != wanted:
            raise ValueError(
                f"{type(self).__name__}: queue holds {[d.name for d in self.queue.dtypes]}, the model takes "
                f"{[d.name for d in wanted]}."
            )

    def _dequeue(self) -> Any:
        return self.queue.dequeue(name="input_deque")

    def _get_input_tensors(self) -> list[Any]:
        with tf.device("/cpu:0"), self.cached_name_scope():
            tensors = self._dequeue()
        tensors = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
        for tensor, spec in zip(tensors, self._signature):
            tensor.set_shape(spec.shape)
        return tensors

    def _get_callbacks(self) -> list[Callback]:
        callbacks: list[Callback] = [_RunThread(self)]
        callbacks += [_UpdateEachStep(update) for update in self._average_size]
        callbacks.append(CallbackFactory(setup_graph=lambda _: self.ds.reset_state()))
        return callbacks

    def _size(self) -> int:
        return len(self.ds)


class BatchQueueInput(QueueInput):
    """
    Enqueue single samples, dequeue batches: as QueueInput, but the DataFlow need not batch.

    Args:
        ds: a DataFlow of datapoints without batch dimension.
        batch_size: samples in a batch, >= 1.
        queue: a TensorFlow queue with the samples' dtypes and fully defined shapes; None means a `FIFOQueue` of 3000.

    Raises:
        ValueError: in `setup`: an input has a dimension other than the first that is not known, or a first one that is not
            `batch_size`.

    Note: when the data ends, the samples that do not fill a batch are dropped.

    tensorpack: same.
    """

    def __init__(self, ds: DataFlow, batch_size: int, queue: Any = None) -> None:
        super().__init__(ds, queue)
        if int(batch_size) < 1:
            raise ValueError(f"BatchQueueInput: batch_size is {batch_size}, wanted at least 1.")
        self.batch_size = int(batch_size)

    def _make_datapoint_signature(self) -> list[Any]:
        for spec in self._signature:
            self._check_shape(spec)
        return [TensorSpec(spec.shape[1:], spec.dtype, f"{spec.name}-nobatch") for spec in self._signature]

    def _check_shape(self, spec: Any) -> None:
        shape = tf.TensorShape(spec.shape)
        if not shape.rank or not shape[1:].is_fully_defined():
            raise ValueError(
                f"BatchQueueInput: input '{spec.name}' has shape {shape}; all dimensions but the first must be known. "
                "Resize in the DataFlow and say so in inputs(), or batch in the DataFlow and use QueueInput."
            )
        if not shape[:1].is_compatible_with([self.batch_size]):
            raise ValueError(
                f"BatchQueueInput: input '{spec.name}' has shape {shape}, and batch_size is {self.batch_size}."
            )

    def _make_queue(self) -> Any:
        dtypes = [spec.dtype for spec in self._datapoint_signature]
        shapes = [spec.shape for spec in self._datapoint_signature]
        return tf.FIFOQueue(3000, dtypes, shapes, name="input_queue")

    def _dequeue(self) -> Any:
        return self.queue.dequeue_many(self.batch_size, name="input_deque")

    def _size(self) -> int:
        return len(self.ds) // self.batch_size


class _RunThread(Callback):
    """Starts the input's thread, ends it, and knows what went wrong in it."""

    def __init__(self, source: QueueInput) -> None:
        self._source = source
        self._error_was_seen = False

    def _before_train(self) -> None:
        self._source.thread.start()

    def _after_train(self) -> None:
        self._source.thread.stop()
        error = self._source.thread.error
        if error is not None and not self._error_was_seen:
            logger.warning(
                f"The data failed after the last step that used it: {type(error).__name__}: {error}"
            )

    def background_error(self) -> BaseException | None:
        self._error_was_seen = True
        return self._source.thread.error or self._source.thread.interruption

    def interrupt(self) -> None:
        if self._source.thread.is_alive() and not self._source.has_datapoints():
            self._source.thread.interrupt()


class _UpdateEachStep(Callback):
    """Evaluates one tensor at every run."""

    def __init__(self, tensor: Any) -> None:
        self._args = tf.train.SessionRunArgs(tensor.op)

    def _before_run(self, ctx: Any) -> Any:
        return self._args
