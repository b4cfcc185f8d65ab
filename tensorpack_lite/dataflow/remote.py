"""
Data on another machine: one process sends the datapoints of its DataFlow, another one receives those of many senders.

In:  a DataFlow on one machine.
Out: its datapoints on another.

What arrives is data, never code, unless both sides ask for pickle. But nothing is encrypted, and nobody has to say who he
is: use it in a network of your own, or through a tunnel of ssh.
"""

from __future__ import annotations

import multiprocessing
import os
import socket as sockets
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, Iterator

from ..utils import logger
from ..utils.concurrency import enable_death_signal
from ..utils.errors import type_error
from ..utils.ordering import DIE
from .base import DataFlow, DataFlowReentrantGuard, DataFlowTerminated, Datapoint
from .network.pyzmq import load_zmq
from .network.receiver import MAX_BYTES, IpcFile, Receiver, open_socket
from .network.wire import encode_datapoint, encode_error, encode_pickle

if TYPE_CHECKING:
    import zmq

__all__ = ["RemoteDataZMQ", "dump_dataflow_to_process_queue", "send_dataflow_zmq"]

_FORMATS = (None, "msgpack", "pickle")
_LINGER_MS = 10000  # how long an error waits for the receiver
_LOG_SECONDS = 60


def send_dataflow_zmq(
    df: DataFlow, addr: str, hwm: int = 50, format: str | None = None, bind: bool = False
) -> None:
    """
    Send the datapoints of a DataFlow to a `RemoteDataZMQ`, pass after pass, for ever.

    Waits while the receiver is not there, is slow, or restarts. When the DataFlow fails, the receiver is told, and the error
    is raised here as well. Ctrl-C and signals end this sender alone: the receiver goes on with others, if there are any.

    Args:
        df: the DataFlow; it is reset. Datapoints are lists or dicts of numbers, strings, bytes, None and arrays, also nested;
            tuples arrive as lists.
        addr: of the receiver, e.g. "tcp://10.0.0.1:5000" or "ipc:///tmp/data" (on one machine).
        hwm: datapoints that wait at this end, at most; as many wait at the other.
        format: None or "msgpack"; or "pickle", which sends any object, where the receiver asks for it as well.
        bind: wait for the receiver to connect to `addr`, instead of connecting to it.

    Raises:
        TypeError: `df` is not a DataFlow, or a datapoint cannot be sent.
        ValueError: another format; `df` is empty; one array has more than 256 MB.
        zmq.ZMQError: the address cannot be used.
        ImportError: ZMQ is not installed.
        Exception, SystemExit: what the DataFlow raises.

    Example:
        >>> send_dataflow_zmq(df, "tcp://10.0.0.1:5000")       # on the machine with the data

    Note:
        One copy is made of each array, so that the DataFlow may use its memory again.

    tensorpack: same arguments; there the default is pickle, an error of the DataFlow does not reach the receiver, and the
        formats "zmq_op" and "zmq_ops" exist.
    """
    _require_dataflow("send_dataflow_zmq", df)
    encode = _encoder(format)
    sender = f"{sockets.gethostname()}, pid {os.getpid()}"
    file = IpcFile(addr if bind else "")
    zmq = load_zmq()
    context = zmq.Context()
    socket = None
    try:
        socket = open_socket(context, zmq.PUSH, addr, hwm, bind, "send_dataflow_zmq")
        file.remember()
        df.reset_state()
        for datapoint in _with_log(_for_ever(df), addr):
            socket.send_multipart(encode(sender, datapoint))
    except DataFlowTerminated:
        if socket is not None:
            socket.setsockopt(zmq.LINGER, _LINGER_MS)  # what was sent still arrives
        logger.info(f"send_dataflow_zmq: the data for {addr} was closed.")
    except (Exception, SystemExit) as error:  # all that a DataFlow can do; Ctrl-C only stops this sender
        if socket is not None:
            _tell(socket, encode_error(sender, type(df).__name__, error, traceback.format_exc()))
        raise
    finally:
        context.destroy(linger=None)  # as set on the socket
        file.remove()


class RemoteDataZMQ(DataFlow):
    """
    The datapoints that `send_dataflow_zmq` sends, on this machine or others. Several senders may send to one address.

    Length: none; it never ends.
    Order: as they come; those of one sender in their order.
    Process: opens its sockets when a pass begins, and closes them when it ends. It can be pickled.

    A sender that vanishes is replaced by the others, or comes back, while datapoints go on. When none has been connected for
    `sender_timeout` seconds, that is an error. So is a sender whose DataFlow fails. What is not a message of a sender is
    dropped and counted, with one warning.

    Args:
        addr1: where datapoints come to, e.g. "tcp://10.0.0.1:5000" or "ipc:///tmp/data" (on one machine).
        addr2: a second one, e.g. one ipc and one tcp.
        hwm: datapoints that wait for the consumer, at most, for each sender.
        bind: wait for senders to connect, instead of connecting to one that binds.
        format: None or "msgpack"; or "pickle", where senders use it as well. Pickle runs any code that arrives at the
            address.
        sender_timeout: seconds without any sender, after there was one, until iteration raises; None waits for ever.
        start_timeout: seconds to wait for the first sender; None waits for ever.

    Raises:
        ValueError: another format; one address twice.
        zmq.ZMQError: (in iteration) the address cannot be used.
        ImportError: ZMQ is not installed.
        RuntimeError: (in iteration) there is no sender; a sender uses another format or version of the protocol.
        Exception: (in iteration) a sender's DataFlow has failed: the type, if it is one of Python's own, otherwise RuntimeError;
            names the machine, the process and the stage, and has the traceback as its cause.
        DataFlowTerminated: (in iteration) the attribute `context` was closed, or `stop` was called.

    Attributes:
        cnt1, cnt2: datapoints of each address that were consumed since `reset_state`.
        dropped: messages that were not a sender's, since `reset_state`.
        context: the zmq.Context of the running pass, or None.

    Example:
        >>> df = RemoteDataZMQ("tcp://10.0.0.1:5000")          # on the machine that trains
        >>> df = BatchData(df, 64)

    Note:
        Datapoints on their way when a pass is left are lost. Frames above 256 MB are refused. A stranger who can reach
        the address can send data, errors, or more of it than there is memory: bind to an address of your own network.

    tensorpack: same; there the default is pickle, a sender that fails or vanishes leaves the receiver waiting, and
        `format` and the timeouts do not exist.
    """

    def __init__(
        self,
        addr1: str,
        addr2: str | None = None,
        hwm: int = 50,
        bind: bool = True,
        format: str | None = None,
        sender_timeout: float | None = 8.0,
        start_timeout: float | None = 300.0,
    ) -> None:
        _check_format("RemoteDataZMQ", format)
        load_zmq()  # that it is absent shall be said here, and not in a worker
        if addr1 == addr2:
            raise ValueError(f"RemoteDataZMQ: addr1 and addr2 are both {addr1!r}. Leave addr2 out.")
        self._addresses = [addr1] if addr2 is None else [addr1, addr2]
        self._hwm = hwm
        self._bind = bind
        self._allow_pickle = format == "pickle"
        self._timeouts = (start_timeout, sender_timeout)
        self._guard = DataFlowReentrantGuard()
        self.context: Any = None
        self._receiver: Receiver | None = None
        self.cnt1 = self.cnt2 = self.dropped = 0

    def reset_state(self) -> None:
        """Set the counts to 0."""
        self.cnt1 = self.cnt2 = self.dropped = 0

    def __iter__(self) -> Iterator[Datapoint]:
        with self._guard:
            receiver = Receiver(self._addresses, self._hwm, self._bind, self._allow_pickle, self._timeouts)
            self._receiver, self.context = receiver, receiver.context
            already_dropped = self.dropped
            try:
                while True:
                    place, datapoint = receiver.next()
                    self.dropped = already_dropped + receiver.dropped
                    yield datapoint
                    if place == 0:
                        self.cnt1 += 1
                    else:
                        self.cnt2 += 1
            finally:
                self.dropped = already_dropped + receiver.dropped
                receiver.close()
                self._receiver = self.context = None

    def stop(self) -> None:
        """End the running pass, from any thread: it raises DataFlowTerminated within a second."""
        receiver = self._receiver
        if receiver is not None:
            receiver.stop()


def dump_dataflow_to_process_queue(df: DataFlow, size: int, nr_consumer: int) -> tuple[Any, Any]:
    """
    Let a process of its own read a DataFlow and put its datapoints into a queue.

    Args:
        df: the DataFlow; it is reset in that process.
        size: datapoints that the queue holds, at most.
        nr_consumer: how many take from the queue.

    Returns:
        A `multiprocessing.Queue` and a `multiprocessing.Process` that is not started. The elements of the queue are
        (number, datapoint), the numbers from 0; then, for each consumer, (DIE, None). If the DataFlow fails, it is (DIE,
        text of the error), and the process ends with exit code 1.

    Raises:
        TypeError: `df` is not a DataFlow.

    Process: the one that is returned. It dies with its parent (on Linux).

    tensorpack: same; there an error leaves the consumers waiting.
    """
    _require_dataflow("dump_dataflow_to_process_queue", df)
    queue: Any = multiprocessing.Queue(size)
    return queue, multiprocessing.Process(target=_dump, args=(df, queue, nr_consumer), daemon=False)


def _dump(df: DataFlow, queue: Any, num_consumers: int) -> None:
    enable_death_signal(_warn=False)
    text = None
    try:
        df.reset_state()
        for number, datapoint in enumerate(df):
            queue.put((number, datapoint))
    except BaseException as error:  # whatever it is, the consumers hear why the data ends
        text = f"{type(df).__name__} failed in process {os.getpid()}: {type(error).__name__}: {error}"
        raise
    finally:
        for _ in range(num_consumers):
            queue.put((DIE, text))


def _require_dataflow(who: str, df: Any) -> None:
    if not isinstance(df, DataFlow):
        raise type_error(who, "a DataFlow", df, "Wrap the data first: DataFromList(data).")


def _check_format(who: str, format: str | None) -> None:
    if format in ("zmq_op", "zmq_ops"):
        raise ValueError(
            f"{who}: format {format!r} is for a custom operation of TensorFlow, which is not here. Leave it out."
        )
    if format not in _FORMATS:
        raise ValueError(f"{who}: format is {format!r}, wanted None, 'msgpack' or 'pickle'.")


def _encoder(format: str | None) -> Callable[[str, Datapoint], list[Any]]:
    _check_format("send_dataflow_zmq", format)
    return encode_pickle if format == "pickle" else _checked_encode


def _checked_encode(sender: str, datapoint: Datapoint) -> list[Any]:
    frames = encode_datapoint(sender, datapoint)
    for frame in frames[1:]:
        if len(frame) > MAX_BYTES:
            raise ValueError(
                f"send_dataflow_zmq: one array has {len(frame)} bytes, wanted {MAX_BYTES} at most."
            )
    return frames


def _for_ever(df: DataFlow) -> Iterator[Datapoint]:
    while True:
        datapoint = None
        for datapoint in df:
            yield datapoint
        if datapoint is None:
            raise ValueError(f"send_dataflow_zmq: {type(df).__name__} is empty; there is nothing to send.")


def _with_log(datapoints: Iterator[Datapoint], addr: str) -> Iterator[Datapoint]:
    """Say from time to time how much was sent."""
    logger.info(f"send_dataflow_zmq: sending to {addr}.")
    sent, since = 0, time.monotonic()
    for datapoint in datapoints:
        yield datapoint
        sent += 1
        seconds = time.monotonic() - since
        if seconds > _LOG_SECONDS:
            logger.info(f"send_dataflow_zmq: {sent / seconds:.1f} datapoints per second to {addr}.")
            sent, since = 0, time.monotonic()


def _tell(socket: zmq.Socket, frames: list[Any]) -> None:
    """Tell the receiver of an error, if it takes it within some seconds."""
    zmq = load_zmq()
    socket.setsockopt(zmq.SNDTIMEO, _LINGER_MS)
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    try:
        socket.send_multipart(frames)
    except zmq.ZMQError as error:
        logger.error(f"send_dataflow_zmq: the receiver could not be told of the error: {error}")
