"""
Data on another machine: one process sends the datapoints of its DataFlow, another one receives those of many senders.

In:  a DataFlow on one machine.
Out: its datapoints on another.

With a secret, both ends prove that they know it, and what they exchange is encrypted. Without one, nothing is encrypted and nobody
proves anything. What arrives is data, never code, unless both sides ask for pickle.
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
from ..utils.secret import SECRET_VARIABLE, find_secret
from .base import DataFlow, DataFlowReentrantGuard, DataFlowTerminated, Datapoint
from .network.connections import Connections
from .network.curve import Keys, derive_keys
from .network.pyzmq import load_zmq
from .network.receiver import Limits, Receiver
from .network.sockets import IpcFile, attach, new_socket
from .network.wire import encode_datapoint, encode_error, encode_greeting, encode_pickle

if TYPE_CHECKING:
    from typing import Literal  # which Python 3.7 lacks

__all__ = ["RemoteDataZMQ", "dump_dataflow_to_process_queue", "send_dataflow_zmq"]

_FORMATS = (None, "msgpack", "pickle")
_LINGER_MS = 10000  # how long an error waits for the receiver
_LOG_SECONDS = 60
_LOOK_MS = 1000  # how often a sender that waits looks whether it was refused
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

    Waits while the receiver is not there, is slow, or restarts. When the DataFlow fails, the receiver is told, and the error
    is raised here as well. Ctrl-C and signals end only this sender: the receiver continues with others, if there are any.

    Args:
        df: the DataFlow; it is reset. Datapoints are lists or dicts of numbers, strings, bytes, None and arrays, also nested;
            tuples arrive as lists. Apart from arrays and bytes a datapoint has at most 1 MB, lists of at most 16,384
            values, and dicts of at most 1,024 keys.
        addr: of the receiver, e.g. "tcp://10.0.0.1:5000" or "ipc:///tmp/data" (on one machine).
        hwm: datapoints that wait at this end, at most; as many wait at the other.
        format: None or "msgpack"; or "pickle", which sends any object, where the receiver asks for it as well.
        bind: wait for the receiver to connect to `addr`, instead of connecting to it.
        secret: as of `RemoteDataZMQ`.
        max_bytes: size of a datapoint, at most; the receiver has a limit of its own.

    Raises:
        TypeError: `df` is not a DataFlow, or a datapoint cannot be sent.
        ValueError: another format; a secret that is too short; `df` is empty; a datapoint is too large.
        OSError: the file of the secret cannot be read, or others than its owner can read it.
        RuntimeError: only one end uses a secret.
        zmq.ZMQError: the address cannot be used.
        ImportError: ZMQ is not installed, or a secret is given and libzmq lacks CURVE.
        Exception, SystemExit: what the DataFlow raises.

    Example:
        >>> send_dataflow_zmq(df, "tcp://10.0.0.1:5000")       # on the machine with the data

    Note:
        One copy is made of each array, so that the DataFlow may use its memory again. Without a secret, whoever listens at
        `addr` gets the data.

    Difference from tensorpack: the default format is msgpack instead of pickle, and "zmq_op" and "zmq_ops" do not exist.
    """
    _require_dataflow("send_dataflow_zmq", df)
    encode = _encoder(format, max_bytes)
    keys = derive_keys(find_secret(secret, "send_dataflow_zmq"), "send_dataflow_zmq")
    name = f"{sockets.gethostname()}, pid {os.getpid()}"
    sender = _Sender(addr, hwm, bind, keys)
    try:
        sender.open()
        sender.greet(encode_greeting(name))
        df.reset_state()
        for datapoint in _with_log(_for_ever(df), addr):
            sender.send(encode(name, datapoint))
    except DataFlowTerminated:
        sender.linger()
        logger.info(f"send_dataflow_zmq: the data for {addr} was closed.")
    except (Exception, SystemExit) as error:  # all that a DataFlow can do; Ctrl-C only stops this sender
        sender.tell(encode_error(name, type(df).__name__, error, traceback.format_exc()))
        raise
    finally:
        sender.close()


class RemoteDataZMQ(DataFlow):
    """
    The datapoints that `send_dataflow_zmq` sends, on this machine or others. Several senders may send to one address.

    Length: none; it never ends.
    Order: as they come; those of one sender in their order.
    Process: opens its sockets when a pass begins, and closes them when it ends. It can be pickled.

    With a secret, a sender has to prove that it knows the same secret (CURVE) before it can send anything, the receiver proves
    it to the sender, and the connection is encrypted. All that a sender reports counts: the error of its DataFlow, another
    format or another version of the library ends the iteration with an error.

    Without a secret, a peer counts as a sender after its first greeting or datapoint that is valid; only then do its errors
    end the iteration. Anything else (noise, pickle, another version, an error from a peer that has sent nothing valid) is dropped
    and counted, with one warning for each kind, and datapoints of other senders continue to arrive. So strangers do no harm by
    accident. A malicious peer that knows the protocol can still send wrong data, report errors, or fill the memory
    with a message that never ends: only a secret keeps such a peer out.

    A sender that vanishes is replaced by the others, or comes back, while datapoints arrive. When none has been connected for
    `sender_timeout` seconds, RuntimeError is raised. A connection over which nothing valid has come does not count as a
    sender; after there was a sender, it gets `start_timeout` seconds to send something.

    Args:
        addr1: where datapoints come to, e.g. "tcp://10.0.0.1:5000" or "ipc:///tmp/data" (on one machine).
        addr2: a second one, e.g. one ipc and one tcp.
        hwm: high-water mark: datapoints that wait for the consumer, at most, for each sender. Memory is bounded by
            `hwm * max_bytes` for each sender.
        bind: wait for senders to connect, instead of connecting to one that binds.
        format: None or "msgpack"; or "pickle", where senders use it as well. Pickle runs any code that arrives at the
            address: use it with a secret.
        sender_timeout: seconds without any sender, after there was one, until iteration raises; None waits without limit.
        start_timeout: seconds to wait for the first sender; None waits without limit.
        secret: text of at least 16 characters that senders have to know, or `pathlib.Path` of a file with it that only its owner can
            read (mode 600). None takes it from `$TENSORPACK_LITE_SECRET`, or from the file `$TENSORPACK_LITE_SECRET_FILE`, if
            one is set. False means no secret, whatever the environment says.
        max_bytes: size of a datapoint, at most. Larger ones are dropped.

    Raises:
        TypeError: the secret is of another type.
        ValueError: another format; one address twice; a secret that is too short.
        OSError: the file of the secret cannot be read, or others than its owner can read it.
        ImportError: ZMQ is not installed, or a secret is given and libzmq lacks CURVE.
        zmq.ZMQError: (in iteration) the address cannot be used.
        RuntimeError: (in iteration) there is no sender; a sender uses another format or version of the protocol.
        Exception: (in iteration) a sender's DataFlow has failed: the type, if it is one of Python's own, otherwise RuntimeError;
            names the machine, the process and the stage, and has the traceback as its cause.
        DataFlowTerminated: (in iteration) the attribute `context` was closed, or `stop` was called.

    Attributes:
        cnt1, cnt2: datapoints of each address that were consumed since `reset_state`.
        dropped: messages that were dropped since `reset_state`.
        context: the zmq.Context of the running pass, or None.

    Example:
        >>> df = RemoteDataZMQ("tcp://10.0.0.1:5000", secret=pathlib.Path("~/.job-secret").expanduser())
        >>> df = BatchData(df, 64)

    Note:
        Datapoints on their way when a pass is left are lost.

    Difference from tensorpack: a sender that fails or vanishes is an error here. The default format is msgpack instead of pickle.
    """

    def __init__(  # noqa: PLR0913 (tensorpack's, and what keeps strangers out)
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
        _check_format("RemoteDataZMQ", format)
        load_zmq()  # that it is absent shall be said here, and not in a worker
        if addr1 == addr2:
            raise ValueError(f"RemoteDataZMQ: addr1 and addr2 are both {addr1!r}. Leave addr2 out.")
        self._addresses = [addr1] if addr2 is None else [addr1, addr2]
        self._bind = bind
        self._allow_pickle = format == "pickle"
        self._keys = derive_keys(find_secret(secret, "RemoteDataZMQ"), "RemoteDataZMQ")
        self._limits = Limits(hwm, max_bytes, start_timeout, sender_timeout)
        self._guard = DataFlowReentrantGuard()
        self.context: Any = None
        self._receiver: Receiver | None = None
        self.cnt1 = self.cnt2 = self.dropped = 0

    def reset_state(self) -> None:
        """Set the counts to 0."""
        self.cnt1 = self.cnt2 = self.dropped = 0

    def __iter__(self) -> Iterator[Datapoint]:
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
            f"{who}: format {format!r} is for a custom operation of TensorFlow, which this library does not have. Leave it out."
        )
    if format not in _FORMATS:
        raise ValueError(
            f"{who}: the format is unknown (expected None, 'msgpack' or 'pickle', got {format!r})."
        )


def _encoder(format: str | None, max_bytes: int) -> Callable[[str, Datapoint], list[Any]]:
    _check_format("send_dataflow_zmq", format)
    encode = encode_pickle if format == "pickle" else encode_datapoint

    def checked(name: str, datapoint: Datapoint) -> list[Any]:
        frames = encode(name, datapoint)
        size = sum(len(frame) for frame in frames)
        if size > max_bytes:
            raise ValueError(
                f"send_dataflow_zmq: a datapoint is too large (expected at most {max_bytes} bytes, got {size}). "
                "Pass a larger max_bytes to send_dataflow_zmq and RemoteDataZMQ, or send smaller batches."
            )
        return frames

    return checked


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


class _Sender:
    """The socket of a sender."""

    def __init__(self, address: str, hwm: int, bind: bool, keys: Keys | None) -> None:
        self._address, self._bind = address, bind
        self._file = IpcFile(address if bind else "")
        self._zmq = zmq = load_zmq()
        self._context = zmq.Context()
        self._socket = new_socket(self._context, zmq.PUSH, hwm, keys)
        self._connections = Connections(self._socket, address, keys is not None, "send_dataflow_zmq")
        self._greeting: list[Any] | None = None

    def open(self) -> None:
        attach(self._socket, self._address, self._bind, "send_dataflow_zmq")
        self._file.remember()

    def greet(self, frames: list[Any]) -> None:
        """Send a greeting, now or, if there is no receiver yet, before the next message."""
        self._greeting = frames
        if self._socket.poll(0, self._zmq.POLLOUT):
            self._send_greeting()

    def send(self, frames: list[Any]) -> None:
        """Send a message as soon as the receiver takes it; raise RuntimeError if the receiver refuses this sender."""
        self._look()
        while not self._socket.poll(_LOOK_MS, self._zmq.POLLOUT):
            self._look()
        self._send_greeting()
        self._socket.send_multipart(frames)

    def _send_greeting(self) -> None:
        if self._greeting is not None:
            self._socket.send_multipart(self._greeting)
            self._greeting = None

    def _look(self) -> None:
        self._connections.look()
        if self._connections.refused and not self._bind:  # zmq does not try again; who binds may have others
            raise RuntimeError(
                f"send_dataflow_zmq: cannot send to {self._address}: {'; '.join(self._connections.refused)}. Pass the same "
                f"secret to send_dataflow_zmq and RemoteDataZMQ, or set {SECRET_VARIABLE} for both."
            )

    def tell(self, frames: list[Any]) -> None:
        """Tell the receiver of an error, if it takes it within some seconds."""
        zmq = self._zmq
        if self._socket.closed or (self._connections.refused and not self._bind):
            return
        self._socket.setsockopt(zmq.SNDTIMEO, _LINGER_MS)
        self.linger()
        try:
            self._send_greeting()
            self._socket.send_multipart(frames)
        except zmq.ZMQError as error:
            logger.error(f"send_dataflow_zmq: the receiver could not be told of the error: {error}")

    def linger(self) -> None:
        """Let `close` wait until what was sent has arrived."""
        self._socket.setsockopt(self._zmq.LINGER, _LINGER_MS)

    def close(self) -> None:
        self._connections.close()
        self._context.destroy(linger=None)  # as set on the socket
        self._file.remove()
