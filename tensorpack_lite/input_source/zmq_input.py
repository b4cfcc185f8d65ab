"""Data from other processes, or other machines, straight into the queue of the graph."""

from __future__ import annotations

from typing import Any, Sequence

from ..dataflow.remote import RemoteDataZMQ
from ..loop.callback import Callback, CallbackFactory
from .queueing import QueueInput
from .tfdata import TFDatasetInput

__all__ = ["ZMQInput"]


class ZMQInput(QueueInput):
    """
    Take the datapoints that `send_dataflow_zmq` sends from other processes or machines.

    It is a QueueInput over `RemoteDataZMQ(end_point, hwm=hwm, bind=bind)`, which says what holds for senders that fail, vanish
    or are strangers. The address is opened in `before_train` and closed in `after_train`.

    Args:
        end_point: where datapoints come to, e.g. "tcp://10.0.0.1:5000" or "ipc:///tmp/data".
        hwm: datapoints that wait for this end, at most, for each sender.
        bind: wait for senders to connect, instead of connecting to one that binds.

    Attributes:
        ds: the RemoteDataZMQ; it counts what came.

    Example:
        >>> send_dataflow_zmq(df, "tcp://10.0.0.1:5000")       # on the machine with the data
        >>> data = ZMQInput("tcp://10.0.0.1:5000", hwm=50)     # on the machine that trains

    Note: it does not know how much data there is; say `TrainConfig(steps_per_epoch=...)`.

    tensorpack: same arguments; there it needs a custom operation, the package zmq_ops, and senders with `format="zmq_ops"`.
        Here senders leave `format` out, and an error of theirs is raised by training.
    """

    def __init__(self, end_point: str, hwm: int, bind: bool = True) -> None:
        super().__init__(RemoteDataZMQ(end_point, hwm=int(hwm), bind=bind))
        self._arguments = (end_point, None, int(hwm), bind)

    def to_dataset(self, input_signature: Sequence[Any]) -> Any:
        """
        Give the same data as a `tf.data.Dataset`, for an input of your own; this input must then not be used too.

        Args:
            input_signature: a list of `TensorSpec`, one for each component; only the dtypes are used.

        Returns:
            A dataset of tuples with unknown shapes. It opens the address when it is iterated over.

        tensorpack: same; there the shapes are known.
        """
        return TFDatasetInput.dataflow_to_dataset(
            RemoteDataZMQ(*self._arguments), [spec.dtype for spec in input_signature]
        )

    def _get_callbacks(self) -> list[Callback]:
        # Before QueueInput's own: its thread may wait for a datapoint that does not come.
        return [CallbackFactory(after_train=lambda _: self.ds.stop()), *super()._get_callbacks()]
