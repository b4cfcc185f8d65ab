"""The QueueInput and the EnqueueThread from which scripts derive their own inputs."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from ..callbacks.concurrency import StartProcOrThread
from ..compat import TensorSpec
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, Datapoint
from ..dataflow.repeat import RepeatedData
from ..input_source import enqueue, queueing
from ..input_source.stream import Stream
from ..loop.callback import Callback
from ..utils import logger
from .inputs import InputSpec


class QueueInput(queueing.QueueInput):
    """
    QueueInput whose subclass may override `_setup` with one that creates `queue` and `thread`.

    New code overrides nothing: it passes a queue to QueueInput.
    """

    @property
    def _inf_ds(self) -> DataFlow:
        """The DataFlow, repeated without end."""
        return RepeatedData(self.ds, -1)

    def setup(self, input_signature: Sequence[tf.TensorSpec]) -> list[Callback]:
        """Call `_setup` with inputs that have the methods of an InputDesc."""
        self._signature = [InputSpec(spec.shape, spec.dtype, spec.name) for spec in input_signature]
        return super().setup(self._signature)

    def _get_callbacks(self) -> list[Callback]:
        if hasattr(self, "_stream"):  # made by the `_setup` of the library
            return super()._get_callbacks()
        thread: Any = getattr(self, "thread", None)
        if isinstance(thread, EnqueueThread):
            self._queue_size = thread.queue_size
            return self._thread_callbacks()
        return [] if thread is None else [StartProcOrThread(thread)]


class EnqueueThread(enqueue.EnqueueThread):
    """
    Thread that resets a DataFlow, repeats it and puts its datapoints into a queue.

    Args:
        queue: a TensorFlow queue.
        ds: the DataFlow.
        placehdrs: a placeholder for each component.

    Attributes:
        queue_size: a tensor, the number of elements in the queue.
    """

    def __init__(self, queue: tf.QueueBase, ds: DataFlow, placehdrs: Sequence[tf.Tensor]) -> None:
        signature = [TensorSpec(one.shape, one.dtype, one.op.name) for one in placehdrs]
        ops = enqueue.EnqueueOps(queue, placehdrs)
        super().__init__("QueueInput", ds, signature, ops, _ResetStream(ds, RepeatedData(ds, -1)))
        self.queue_size = ops.size

    def run(self) -> None:
        """Enqueue until the data ends or fails, and log an error, since the script's own callbacks may not raise it."""
        super().run()
        if self.error is not None:
            logger.error(f"EnqueueThread: {type(self.error).__name__}: {self.error}")


class _ResetStream(Stream):
    """A stream that resets its DataFlow when it is read."""

    def __iter__(self) -> Iterator[Datapoint]:
        self.reset()
        return super().__iter__()
