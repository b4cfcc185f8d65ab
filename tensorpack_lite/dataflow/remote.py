"""
Datapoints over the network: `send_dataflow_zmq` sends a DataFlow, `RemoteDataZMQ` receives from one or more senders.

In:  a DataFlow on one machine.
Out: its datapoints on another.

With a secret, both ends authenticate each other and the connection is encrypted. Without a secret there is neither
authentication nor encryption. A message contains data and cannot run code, unless both ends choose pickle.
"""

from __future__ import annotations

import multiprocessing
import os
import socket as sockets
import time
import traceback
from typing import TYPE_CHECKING, Any, Iterable, Iterator

from ..utils import logger
from ..utils.checks import check_choice
from ..utils.concurrency import enable_death_signal
from ..utils.ordering import DIE
from ..utils.secret import SECRET_VARIABLE, find_secret
from .base import DataFlow, DataFlowReentrantGuard, DataFlowTerminated, Datapoint, require_dataflow
from .network.connections import Connections
from .network.curve import Keys, derive_keys
from .network.pyzmq import load_zmq
from .network.receiver import Limits, Receiver
from .network.sockets import IpcFile, attach, new_socket
from .network.wire import Frame, encode_datapoint, encode_error, encode_greeting, encode_pickle
from .repeat import RepeatedData

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from typing import Literal  # not in Python 3.7

    import zmq

_FORMATS = (None, "msgpack", "pickle")
_LINGER_MS = 10000  # how long a failing sender waits for the receiver to take the error
_LOG_SECONDS = 60
_LOOK_MS = 1000  # how often a waiting sender checks whether it was refused
_MAX_BYTES = 1 << 28


def send_dataflow_zmq(
    df: DataFlow,
    addr: str,
    hwm: int = 50,
    format: str | None = None,
    bind: bool = False,
    secret: str | os.PathLike[str] | Literal[False] | None = None,
    max_bytes: int = _MAX_BYTES,
) -> None:
    """
    Send the datapoints of a DataFlow to a `RemoteDataZMQ`, pass after pass, without end.

    Waits while the receiver is absent, slow or restarting. If the DataFlow raises an error, it is sent to the
    receiver and raised here as well. Ctrl-C and signals end only this sender; the receiver continues with the
    other senders.

    Args:
        df: the DataFlow; it is reset. Datapoints are nested lists or dicts of numbers, strings, bytes, None and arrays;
            tuples arrive as lists. Without arrays and bytes, a datapoint is limited to 1 MB, a list to 16,384
            values and a dict to 1,024 keys.
        addr: address of the receiver, e.g. "tcp://10.0.0.1:5000" or "ipc:///tmp/data" (on one machine).
        hwm: high-water mark: at most this number of datapoints wait at this end, and as many at the receiver.
        format: None or "msgpack"; or "pickle", which can send any object. The receiver must use the same format.
        bind: whether to bind `addr` and wait for the receiver to connect, instead of connecting to it.
        secret: as in `RemoteDataZMQ`.
        max_bytes: maximum size of a datapoint. The receiver has a separate limit.

    Raises:
        TypeError: `df` is not a DataFlow, or a datapoint cannot be sent.
        ValueError: the format is unknown, the secret is too short, or a datapoint is too large.
        OSError: the file with the secret cannot be read, or users other than its owner can read it.
        RuntimeError: only one end uses a secret, or `df` is empty.
        zmq.ZMQError: the address cannot be used.
        ImportError: ZMQ is not installed, or a secret is given and libzmq lacks CURVE.
        Exception, SystemExit: the DataFlow raised it.

    Example:
        >>> send_dataflow_zmq(df, "tcp://10.0.0.1:5000")       # on the machine with the data

    Note:
        Arrays are copied once, so the DataFlow may reuse their memory. Without a secret, any process that
        listens at `addr` receives the data.

    Difference from tensorpack: the default format is msgpack instead of pickle, and "zmq_op" and "zmq_ops" do
    not exist.
    """
    require_dataflow("send_dataflow_zmq", df)
    check_choice("send_dataflow_zmq: format", format, _FORMATS)
    encode = encode_pickle if format == "pickle" else encode_datapoint
    keys = derive_keys(find_secret(secret, "send_dataflow_zmq"), "send_dataflow_zmq")
    name = f"{sockets.gethostname()}, pid {os.getpid()}"
    sender = _Sender(addr, hwm, bind, keys, encode_greeting(name))
    try:
        sender.open()
        df.reset_state()
        for datapoint in _with_log(RepeatedData(df, -1), addr):
            sender.send(_checked_size(encode(name, datapoint), max_bytes))
    except DataFlowTerminated:
        sender.linger()
        logger.info(f"send_dataflow_zmq: stopped sending to {addr}, because the source of the data was closed.")
    except (Exception, SystemExit) as error:  # not KeyboardInterrupt: Ctrl-C only stops this sender
        sender.tell(encode_error(name, type(df).__name__, error, traceback.format_exc()))
        raise
    finally:
        sender.close()


class RemoteDataZMQ(DataFlow):
    """
    DataFlow that receives the datapoints of one or more `send_dataflow_zmq`, on this machine or others.

    Length: infinite.
    Order: that of arrival; datapoints of one sender keep their order.
    Process: sockets are opened at the start of a pass and closed at its end. It can be pickled.

    With a secret, each end proves to the other that it knows the secret (CURVE) before anything is sent, and
    the connection is encrypted. The receiver trusts the reports of a sender: an error of its DataFlow, a
    different format or a different version of the library ends the iteration with an error.

    Without a secret, a peer counts as a sender after its first valid greeting or datapoint; only then do its
    errors end the iteration. Anything else (noise, pickle, another version, an error from a peer that has
    sent nothing valid) is dropped and counted, with one warning for each kind, and the datapoints of other
    senders continue to arrive. This protects against accidents. A malicious peer that knows the protocol can
    still send wrong data, report errors, or fill the memory with an endless message. Only a secret keeps such
    a peer out.

    If a sender disappears, the others continue, and it may reconnect. If no sender has been connected for
    `sender_timeout` seconds, RuntimeError is raised. A connection that has sent nothing valid does not count
    as a sender; once there has been a sender, such a connection gets `start_timeout` seconds to send
    something.

    Args:
        addr1: address that senders use, e.g. "tcp://10.0.0.1:5000" or "ipc:///tmp/data" (on one machine).
        addr2: a second address, e.g. one ipc and one tcp.
        hwm: high-water mark: maximum number of datapoints of each sender that wait for the consumer. They use at most
            `hwm * max_bytes` of memory for each sender.
        bind: whether to bind the addresses and wait for senders, instead of connecting to a sender that binds.
        format: None or "msgpack"; or "pickle", if the senders use it as well. Unpickling can run any code, so
            use pickle only with a secret.
        sender_timeout: seconds without any sender, after there was one, until iteration raises; None waits
            without limit.
        start_timeout: seconds to wait for the first sender; None waits without limit.
        secret: text of at least 16 characters that senders must know; or `pathlib.Path` of a file with this
            text that only its owner can read (mode 600). None uses `$TENSORPACK_LITE_SECRET`, or the file
            named by `$TENSORPACK_LITE_SECRET_FILE`, if one of them is set. False means no secret and ignores
            the environment.
        max_bytes: maximum size of a datapoint. Larger ones are dropped.

    Raises:
        TypeError: the secret has another type.
        ValueError: the format is unknown, both addresses are equal, or the secret is too short.
        OSError: the file with the secret cannot be read, or users other than its owner can read it.
        ImportError: ZMQ is not installed, or a secret is given and libzmq lacks CURVE.
        zmq.ZMQError: (while iterating) the address cannot be used.
        RuntimeError: (while iterating) there is no sender, or a sender uses another format or version of the protocol.
        Exception: (while iterating) the DataFlow of a sender raised it. A built-in exception keeps its type, any other
            becomes a RuntimeError. The message names the machine, the process and the stage; the cause has
            the traceback.
        DataFlowTerminated: (while iterating) the attribute `context` was closed, or `stop` was called.

    Attributes:
        cnt1, cnt2: number of datapoints of each address that were consumed since `reset_state`.
        dropped: number of messages that were dropped since `reset_state`.
        context: the zmq.Context of the running pass, or None.

    Example:
        >>> df = RemoteDataZMQ("tcp://10.0.0.1:5000", secret=pathlib.Path("~/.job-secret").expanduser())
        >>> df = BatchData(df, 64)

    Note:
        If a pass is left early, datapoints in transit are lost.

    Difference from tensorpack: a sender that fails or disappears is an error here. The default format is
    msgpack instead of pickle.
    """

    def __init__(  # noqa: PLR0913 (tensorpack's arguments, and those for timeouts and security)
        self,
        addr1: str,
        addr2: str | None = None,
        hwm: int = 50,
        bind: bool = True,
        format: str | None = None,
        sender_timeout: float | None = 8.0,
        start_timeout: float | None = 300.0,
        secret: str | os.PathLike[str] | Literal[False] | None = None,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        check_choice("RemoteDataZMQ: format", format, _FORMATS)
        load_zmq()  # so that a missing package is reported here, not later in a worker
        if addr1 == addr2:
            raise ValueError(f"RemoteDataZMQ: addr1 and addr2 are both {addr1!r}. Omit addr2.")
        self._addresses = [addr1] if addr2 is None else [addr1, addr2]
        self._bind = bind
        self._allow_pickle = format == "pickle"
        self._keys = derive_keys(find_secret(secret, "RemoteDataZMQ"), "RemoteDataZMQ")
        self._limits = Limits(hwm, max_bytes, start_timeout, sender_timeout)
        self._guard = DataFlowReentrantGuard()
        self.context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._receiver: Receiver | None = None
        self.cnt1 = self.cnt2 = self.dropped = 0

    def reset_state(self) -> None:
        """Set the counters to 0."""
        self.cnt1 = self.cnt2 = self.dropped = 0

    def _resume_level(self) -> tuple[str, str]:
        return "none", "its senders continue while this process is not running"

    def __iter__(self) -> Iterator[Datapoint]:
        return self.iter_from(0)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield what the senders send."""
        with self._guard:
            receiver = Receiver(self._addresses, self._bind, self._allow_pickle, self._limits, self._keys)
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
        """End the running pass, which raises DataFlowTerminated within a second. Thread-safe."""
        receiver = self._receiver
        if receiver is not None:
            receiver.stop()


def dump_dataflow_to_process_queue(
    df: DataFlow, size: int, nr_consumer: int
) -> tuple[Queue[Any], multiprocessing.Process]:
    """
    Create a process that iterates a DataFlow and puts its datapoints into a queue.

    Args:
        df: the DataFlow; it is reset in the new process.
        size: maximum number of datapoints in the queue.
        nr_consumer: number of consumers of the queue.

    Returns:
        A `multiprocessing.Queue` and a `multiprocessing.Process` that is not started. The elements of the queue are
        (number, datapoint), counted from 0, followed by (DIE, None) for each consumer. If the DataFlow raises an error,
        (DIE, text of the error) follows instead, and the process ends with exit code 1.

    Raises:
        TypeError: `df` is not a DataFlow.

    Process: runs in the returned process, which on Linux ends with its parent.
    """
    require_dataflow("dump_dataflow_to_process_queue", df)
    queue: Queue[Any] = multiprocessing.Queue(size)
    return queue, multiprocessing.Process(target=_dump, args=(df, queue, nr_consumer), daemon=False)


def _dump(df: DataFlow, queue: Queue[Any], num_consumers: int) -> None:
    enable_death_signal(_warn=False)
    text = None
    try:
        df.reset_state()
        for number, datapoint in enumerate(df):
            queue.put((number, datapoint))
    except BaseException as error:  # send the reason to the consumers, then raise it
        text = f"{type(df).__name__} failed in process {os.getpid()}: {type(error).__name__}: {error}"
        raise
    finally:
        for _ in range(num_consumers):
            queue.put((DIE, text))


def _checked_size(frames: list[Frame], max_bytes: int) -> list[Frame]:
    size = sum(len(frame) for frame in frames)
    if size > max_bytes:
        raise ValueError(
            f"send_dataflow_zmq: a datapoint is too large (expected at most {max_bytes} bytes, got {size}). "
            "Pass a larger max_bytes to send_dataflow_zmq and RemoteDataZMQ, or send smaller batches."
        )
    return frames


def _with_log(datapoints: Iterable[Datapoint], addr: str) -> Iterator[Datapoint]:
    """Yield datapoints, and log their rate once a minute."""
    logger.info(f"send_dataflow_zmq: sending to {addr}.")
    sent, since = 0, time.monotonic()
    for datapoint in datapoints:
        yield datapoint
        sent += 1
        seconds = time.monotonic() - since
        if seconds > _LOG_SECONDS:
            logger.info(f"send_dataflow_zmq: {sent / seconds:.1f} datapoints per second to {addr}.")
            sent, since = 0, time.monotonic()


class _Sender:
    """The socket of a sender. `greeting` is its first message."""

    def __init__(self, address: str, hwm: int, bind: bool, keys: Keys | None, greeting: list[Frame]) -> None:
        self._address, self._bind = address, bind
        self._file = IpcFile(address if bind else "")
        self._zmq = zmq = load_zmq()
        self._context = zmq.Context()
        self._socket = new_socket(self._context, zmq.PUSH, hwm, keys)
        self._connections = Connections(self._socket, address, keys is not None, "send_dataflow_zmq")
        self._greeting: list[Frame] | None = greeting  # until it is sent
        self._look_at = 0.0  # time of the next look at the connections

    def open(self) -> None:
        """Send the greeting now, or before the next message if no receiver is connected yet."""
        attach(self._socket, self._address, self._bind, "send_dataflow_zmq")
        self._file.remember()
        if self._socket.poll(0, self._zmq.POLLOUT):
            self._send_greeting()

    def send(self, frames: list[Frame]) -> None:
        """Wait until the receiver has room, and send a message. Raise RuntimeError if the receiver refuses this sender."""
        if time.monotonic() > self._look_at:
            self._look()
        if self._greeting is not None:
            self._wait_for_room()
            self._send_greeting()
        try:
            self._socket.send_multipart(frames, self._zmq.NOBLOCK)
        except self._zmq.Again:
            self._wait_for_room()
            self._socket.send_multipart(frames)

    def _wait_for_room(self) -> None:
        self._look()
        while not self._socket.poll(_LOOK_MS, self._zmq.POLLOUT):
            self._look()

    def _send_greeting(self) -> None:
        if self._greeting is not None:
            self._socket.send_multipart(self._greeting)
            self._greeting = None

    def _look(self) -> None:
        self._look_at = time.monotonic() + _LOOK_MS / 1000
        self._connections.look()
        # zmq does not retry after a refusal; a sender that binds may have other receivers
        if self._connections.refused and not self._bind:
            raise RuntimeError(
                f"send_dataflow_zmq: cannot send to {self._address}: {'; '.join(self._connections.refused)}. Pass the same "
                f"secret to send_dataflow_zmq and RemoteDataZMQ, or set {SECRET_VARIABLE} for both."
            )

    def tell(self, frames: list[Frame]) -> None:
        """Send an error to the receiver, and give up after 10 seconds."""
        zmq = self._zmq
        if self._socket.closed or (self._connections.refused and not self._bind):
            return
        self._socket.setsockopt(zmq.SNDTIMEO, _LINGER_MS)
        self.linger()
        try:
            self._send_greeting()
            self._socket.send_multipart(frames)
        except zmq.ZMQError as error:
            logger.error(f"send_dataflow_zmq: could not send the error to the receiver: {error}")

    def linger(self) -> None:
        """Make `close` wait until all messages have arrived, for at most 10 seconds."""
        self._socket.setsockopt(self._zmq.LINGER, _LINGER_MS)

    def close(self) -> None:
        self._connections.close()
        self._context.destroy(linger=None)  # as set on the socket
        self._file.remove()
