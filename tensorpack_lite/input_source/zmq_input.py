"""Input that takes datapoints of other processes or machines into the queue of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

from ..dataflow.remote import RemoteDataZMQ
from ..loop.callback import Callback, CallbackFactory
from .queueing import QueueInput
from .tfdata import TFDatasetInput

if TYPE_CHECKING:
    import os
    from typing import Literal  # which Python 3.7 lacks

__all__ = ["ZMQInput"]


class ZMQInput(QueueInput):
    """
    Take the datapoints that `send_dataflow_zmq` sends from other processes or machines.

    A QueueInput over `RemoteDataZMQ(end_point, hwm=hwm, bind=bind, secret=secret, max_bytes=max_bytes)`. Its documentation says what
    happens when senders fail or vanish, and when strangers connect. The address is opened in `before_train` and closed in
    `after_train`.

    Args:
        end_point: where datapoints come to, e.g. "tcp://10.0.0.1:5000" or "ipc:///tmp/data".
        hwm: datapoints that wait for this end, at most, for each sender.
        bind: wait for senders to connect, instead of connecting to one that binds.
        secret: text that senders have to know, or the `pathlib.Path` of a file with it; default: `$TENSORPACK_LITE_SECRET`, if set.
            Without a secret, whoever can reach the address can send data.
        max_bytes: size of a datapoint, at most.

    Raises:
        TypeError, ValueError, OSError, ImportError: as `RemoteDataZMQ`.

    Attributes:
        ds: the RemoteDataZMQ; it counts what came.

    Example:
        >>> send_dataflow_zmq(df, "tcp://10.0.0.1:5000")       # on the machine with the data
        >>> data = ZMQInput("tcp://10.0.0.1:5000", hwm=50)     # on the machine that trains

    Note: its size is unknown, so set `TrainConfig(steps_per_epoch=...)`.

    Difference from tensorpack: it needs no custom operation. Senders leave `format` out; training raises the error of a sender.
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

    def to_dataset(self, input_signature: Sequence[Any]) -> Any:
        """
        Give the same data as a `tf.data.Dataset`, for an input of your own; this input must then not be used too.

        Args:
            input_signature: a list of `TensorSpec`, one for each component; only the dtypes are used.

        Returns:
            A dataset of tuples with unknown shapes. It opens the address when it is iterated over.

        Difference from tensorpack: the shapes are unknown.
        """
        return TFDatasetInput.dataflow_to_dataset(self._receive(), [spec.dtype for spec in input_signature])

    def _get_callbacks(self) -> list[Callback]:
        # Before QueueInput's own: its thread may wait for a datapoint that does not come.
        return [CallbackFactory(after_train=lambda _: self.ds.stop()), *super()._get_callbacks()]
