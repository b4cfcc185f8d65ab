"""Input that receives datapoints from other processes or machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from ..compat import tfv1 as tf
from ..dataflow.remote import RemoteDataZMQ
from ..loop.callback import Callback
from ..loop.callback_factory import CallbackFactory
from .queueing import QueueInput
from .tfdata import TFDatasetInput

if TYPE_CHECKING:
    import os
    from typing import Literal  # which Python 3.7 lacks


class ZMQInput(QueueInput):
    """
    InputSource that receives the datapoints that `send_dataflow_zmq` sends from other processes or machines.

    A QueueInput over a `RemoteDataZMQ`, whose documentation describes failing senders and unknown peers. The address is
    opened in `before_train` and closed in `after_train`.

    Args:
        end_point: address that receives, e.g. "tcp://10.0.0.1:5000" or "ipc:///tmp/data".
        hwm: high-water mark: at most this number of datapoints of each sender wait at this end.
        bind: whether to bind the address and wait for senders, instead of connecting to a sender that binds.
        secret: text that senders must know, or the `pathlib.Path` of a file that contains it. Default:
            `$TENSORPACK_LITE_SECRET`, if set. Without a secret, anyone who can reach the address can send data.
        max_bytes: maximum size of a datapoint.

    Raises:
        TypeError, ValueError, OSError, ImportError: as `RemoteDataZMQ`.

    Attributes:
        ds: the RemoteDataZMQ, which counts the received datapoints.

    Example:
        >>> send_dataflow_zmq(df, "tcp://10.0.0.1:5000")       # on the machine with the data
        >>> data = ZMQInput("tcp://10.0.0.1:5000", hwm=50)     # on the machine that trains

    Note: its size is unknown, so set `TrainConfig(steps_per_epoch=...)`.

    Difference from tensorpack: tensorpack needs a compiled operation and senders with `format="zmq_op"`. Here
    senders use the default format, and training raises the error of a sender.
    """

    def __init__(
        self,
        end_point: str,
        hwm: int,
        bind: bool = True,
        secret: str | os.PathLike[str] | Literal[False] | None = None,
        max_bytes: int = 1 << 28,
    ) -> None:
        def receive() -> RemoteDataZMQ:
            return RemoteDataZMQ(end_point, hwm=int(hwm), bind=bind, secret=secret, max_bytes=max_bytes)

        super().__init__(receive())
        self._receive = receive

    def to_dataset(self, input_signature: Sequence[tf.TensorSpec]) -> tf.data.Dataset:
        """
        Return the same data as a `tf.data.Dataset`. Do not use this input as well.

        Args:
            input_signature: a list of `TensorSpec`, one for each component. Only the dtypes are used.

        Returns:
            A dataset of tuples with unknown shapes. Iterating over it opens the address.

        Difference from tensorpack: tensorpack sets the shapes of the signature. Here they are unknown.
        """
        return TFDatasetInput.dataflow_to_dataset(self._receive(), [spec.dtype for spec in input_signature])

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        self.flow.no_position = "its senders continue while this process is not running"
        super()._setup(input_signature)

    def _get_callbacks(self) -> list[Callback]:
        # Before the callback of QueueInput, which waits for its thread: that may wait for a datapoint that
        # never arrives.
        stop = self.ds.stop  # type: ignore[attr-defined]
        return [CallbackFactory(after_train=lambda _: stop()), *super()._get_callbacks()]
