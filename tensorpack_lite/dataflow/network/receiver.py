"""
Receiver of datapoints: the sockets of `RemoteDataZMQ`, and the decision which messages count.

In:  messages of `wire.py`, from senders that come and go, and from strangers.
Out: datapoints, or an error.

With a secret, only senders that know it can send messages, so every report of an error ends the iteration. Without a
secret, a report counts only if a valid greeting or datapoint has arrived over the same connection. Other messages are
dropped, with one warning for each kind.
"""

from __future__ import annotations

import builtins
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ...utils import logger
from ..base import DataFlowTerminated, Datapoint
from .connections import Connections
from .curve import Gatekeeper, Keys
from .pyzmq import load_zmq
from .sockets import IpcFile, attach, new_socket
from .wire import MAX_FRAME_BYTES, MAX_VALUES, Message, VersionError, WireError, decode

if TYPE_CHECKING:
    import zmq

_CHECK_SECONDS = 1.0  # how often to check for senders
_LOCAL = ("127.", "localhost:", "[::1]")
_WHO = "RemoteDataZMQ"


class Limits(NamedTuple):
    """
    Limits of a receiver.

    Attributes:
        hwm: maximum number of waiting messages for each sender.
        max_bytes: maximum size of a message.
        start_timeout: seconds to wait for the first sender; None for no limit.
        sender_timeout: seconds without any sender after the first one; None for no limit.
    """

    hwm: int
    max_bytes: int
    start_timeout: float | None
    sender_timeout: float | None


class Receiver:
    """
    Receiver of datapoints at one or two addresses.

    Args:
        addresses: addresses of the sockets.
        bind: bind instead of connect.
        allow_pickle: receive pickled datapoints, and only those.
        limits: limits of memory and time.
        keys: keys of the secret, or None without a secret.

    Attributes:
        context: the ZMQ context.
        dropped: number of dropped messages.
    """

    def __init__(self, addresses: list[str], bind: bool, allow_pickle: bool, limits: Limits, keys: Keys | None) -> None:
        self._zmq = zmq = load_zmq()
        self.context = zmq.Context()
        self.dropped = 0
        self._allow_pickle, self._limits, self._has_secret = allow_pickle, limits, keys is not None
        self._ends: list[_End] = []
        self._poller = zmq.Poller()
        self._turn = 0
        self._warned: set[str] = set()
        self._last_dropped = ""
        self._last_sender: str | None = None
        self._stopped = False
        self._checked_at = self._waiting_since = time.monotonic()
        self._alone_since: float | None = time.monotonic()
        try:
            if keys is not None:
                Gatekeeper(self.context, keys)
            for address in addresses:
                self._ends.append(_End(self.context, address, limits, bind, keys))
        except BaseException:  # also after Ctrl-C, no socket stays open
            self.close()
            raise
        for end in self._ends:
            self._poller.register(end.socket, zmq.POLLIN)
            self._poller.register(end.connections.monitor, zmq.POLLIN)
        if bind and keys is None:
            self._warn_of_open_addresses()

    def next(self) -> tuple[int, Datapoint]:
        """
        Wait for a datapoint.

        Returns:
            The index of the address at which it arrived, 0 or 1, and the datapoint.

        Raises:
            DataFlowTerminated: the context was closed.
            Exception: as `RemoteDataZMQ`.
        """
        zmq = self._zmq
        self._waiting_since = time.monotonic()
        try:
            return self._receive()
        except zmq.ZMQError as error:
            if error.errno in (zmq.ETERM, zmq.ENOTSOCK):
                raise DataFlowTerminated("RemoteDataZMQ: its context was closed.") from error
            raise

    def stop(self) -> None:
        """Make `next` raise DataFlowTerminated within a second, in whichever thread it waits."""
        self._stopped = True

    def close(self) -> None:
        """Close all sockets and remove the files that they were bound to."""
        closed_by_others = self._is_closed()
        for end in self._ends:
            end.close()
        if not closed_by_others:  # zmq aborts if two threads close a context at the same time
            self.context.term()

    def _is_closed(self) -> bool:
        zmq = self._zmq
        try:
            for end in self._ends:
                end.socket.getsockopt(zmq.EVENTS)
        except zmq.ZMQError as error:
            return error.errno in (zmq.ETERM, zmq.ENOTSOCK)
        return False

    def _warn_of_open_addresses(self) -> None:
        for end in self._ends:
            host = end.address[len("tcp://") :]
            if end.address.startswith("tcp://") and not host.startswith(_LOCAL):
                harm = "run code in this process" if self._allow_pickle else "send data and end the training"
                logger.warning(
                    f"{_WHO}: without a secret, anyone who can connect to {end.address} can {harm}. "
                    "Pass secret= to send_dataflow_zmq and RemoteDataZMQ."
                )

    # ------------------------------------------------------------------------------------- messages
    def _receive(self) -> tuple[int, Datapoint]:
        while True:
            if self._stopped:
                raise DataFlowTerminated("RemoteDataZMQ: was stopped.")
            if time.monotonic() - self._checked_at > _CHECK_SECONDS:
                self._check_senders()
            is_idle = True
            for _ in self._ends:
                self._turn = (self._turn + 1) % len(self._ends)  # alternate between the addresses
                try:
                    arrived = self._ends[self._turn].take()
                except self._zmq.Again:
                    continue
                is_idle = False
                datapoint = self._read(self._ends[self._turn].connections, arrived)
                if datapoint is not None:
                    return self._turn, datapoint
            if is_idle:
                self._poller.poll(int(_CHECK_SECONDS * 1000))
                self._check_senders()

    def _read(self, connections: Connections, arrived: _Arrived) -> Datapoint | None:
        """Return the datapoint of a message, or None for a message without one."""
        counts = self._has_secret or connections.is_proven(arrived.connection)
        try:
            message = arrived.decode(self._allow_pickle)
        except VersionError as error:
            text = f"{error}. Install the same version of tensorpack_lite at both ends"
            self._raise_or_drop("version", text, arrived, counts)
            return None
        except WireError as error:
            self._raise_or_drop("damage", f"{error!s:.300}", arrived, self._has_secret)
            return None
        if message.kind == "E":
            if counts:
                _raise_sender_error(message.sender, *message.content)
            stage, kind, text, _ = message.content
            report = f"an error of {stage} at {message.sender}: {kind}: {text:.200}"
            self._raise_or_drop("error", report, arrived, False)
            return None
        if message.kind in "DP" and (message.kind == "P") != self._allow_pickle:
            theirs, ours = ("pickle", "msgpack") if message.kind == "P" else ("msgpack", "pickle")
            text = (
                f"the sender at {message.sender} uses format={theirs!r}, this receiver {ours!r}. "
                "Pass the same format to send_dataflow_zmq and RemoteDataZMQ"
            )
            self._raise_or_drop("format", text, arrived, counts)
            return None
        connections.prove(arrived.connection)
        self._last_sender = message.sender
        if self._alone_since is not None:
            self._alone_since = time.monotonic()
        return message.content

    def _raise_or_drop(self, kind: str, text: str, arrived: _Arrived, counts: bool) -> None:
        """Raise an error if the peer counts as a sender. Otherwise drop the message, and log the first one of its kind."""
        if counts:
            raise RuntimeError(f"{_WHO}: {text}.")
        self.dropped += 1
        self._last_dropped = f"from {arrived.host}: {text}"
        if kind not in self._warned:
            self._warned.add(kind)
            where = " or ".join(end.address for end in self._ends)
            logger.warning(
                f"{_WHO}: dropped a message {self._last_dropped}. Only send_dataflow_zmq of tensorpack_lite may send to "
                f"{where}. Further messages of this kind are counted in `dropped` and not logged."
            )

    # ------------------------------------------------------------------------------------- senders
    def _check_senders(self) -> None:
        """Raise RuntimeError if there has been no sender for too long."""
        self._checked_at = now = time.monotonic()
        for end in self._ends:
            end.connections.look()
        if any(end.connections.senders for end in self._ends):
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = now
        limit = self._patience()
        # time in which the consumer was busy elsewhere does not count
        if limit is not None and now - max(self._alone_since, self._waiting_since) > limit:
            raise RuntimeError(self._no_sender_text(limit))

    def _patience(self) -> float | None:
        """Return how many seconds to wait for a valid message."""
        start, later = self._limits.start_timeout, self._limits.sender_timeout
        if self._last_sender is None:
            return start
        if not any(end.connections.open for end in self._ends):
            return later
        # a sender may have reconnected and need a long time for its next datapoint
        return None if start is None or later is None else max(start, later)

    def _no_sender_text(self, limit: float) -> str:
        where = " and ".join(end.address for end in self._ends)
        reasons = sorted(reason for end in self._ends for reason in end.connections.refused)
        unfinished = sum(end.connections.unfinished for end in self._ends)
        if unfinished:
            secret = "another secret" if self._has_secret else "a secret"
            reasons.append(
                f"{unfinished} connections of strangers or of senders with {secret} ended in ZMQ's handshake"
            )
        if self.dropped:
            reasons.append(f"{self.dropped} messages were dropped, the last one {self._last_dropped}")
        seen = f" Meanwhile: {'; '.join(reasons)}." if reasons else ""
        if self._last_sender is None:
            return (
                f"{_WHO}: no sender connected to {where} within {limit:g} seconds.{seen} "
                f"Run send_dataflow_zmq(df, {where!r})."
            )
        return (
            f"{_WHO}: all senders of {where} have vanished, and none has come back within {limit:g} seconds. "
            f"The last message was from {self._last_sender}.{seen} Check whether they were killed or stopped, or pass a larger "
            "sender_timeout."
        )


class _Arrived(NamedTuple):
    """
    A message that is not decoded yet.

    Attributes:
        frames: `zmq.Frame`s of the message; empty if the message was too large.
        connection: file descriptor of the connection over which it arrived; -1 if unknown.
        first: its first frame.
        max_bytes: maximum size of a message.
    """

    frames: list[zmq.Frame]
    connection: int
    first: zmq.Frame
    max_bytes: int

    @property
    def host(self) -> str:
        """The address of the peer."""
        try:
            return str(self.first.get("Peer-Address"))
        except load_zmq().ZMQError:  # unknown for some kinds of connection
            return "an unknown address"

    def decode(self, allow_pickle: bool) -> Message:
        """Decode the message; raises the errors of `wire.decode`."""
        if not self.frames:
            raise WireError(f"a message that is too large (expected at most {self.max_bytes} bytes)")
        return decode([frame.buffer for frame in self.frames], allow_pickle)


class _End:
    """One address, with its socket and the connections to it."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        limits: Limits,
        bind: bool,
        keys: Keys | None,
    ) -> None:
        self._zmq = zmq = load_zmq()
        self.address = address
        self._max_bytes = limits.max_bytes
        self._max_frames = 1 + MAX_VALUES + limits.max_bytes // MAX_FRAME_BYTES
        self._file = IpcFile(address if bind else "")
        self.socket = new_socket(context, zmq.PULL, limits.hwm, keys)
        self.connections = Connections(self.socket, address, keys is not None, _WHO)
        try:
            attach(self.socket, address, bind, _WHO)
        except zmq.ZMQError:
            self.close()
            raise
        self._file.remember()

    def take(self) -> _Arrived:
        """Return a message, or raise zmq.Again if none has arrived. The frames of too large a message are not kept."""
        zmq = self._zmq
        frame = first = self.socket.recv(zmq.NOBLOCK, copy=False)
        try:
            connection = int(frame.get(zmq.SRCFD))
        except zmq.ZMQError:  # unknown for some kinds of connection
            connection = -1
        frames: list[Any] = []
        size, fits = 0, True
        while True:
            size += len(frame)
            fits = fits and size <= self._max_bytes and len(frames) < self._max_frames
            if fits:
                frames.append(frame)
            else:
                frames.clear()
            if not frame.more:
                return _Arrived(frames, connection, first, self._max_bytes)
            frame = self.socket.recv(copy=False)

    def close(self) -> None:
        self.connections.close()
        self.socket.close(0)
        self._file.remove()


def _raise_sender_error(sender: str, stage: str, kind: str, text: str, trace: str) -> NoReturn:
    """Raise the error of a sender. Messages hold only text, so only Python's built-in exceptions keep their type."""
    cause = RuntimeError(f"At {sender}:\n{trace}")
    where = f"RemoteDataZMQ: {stage} failed at the sender ({sender})"
    error: Exception = RuntimeError(f"{where}: {kind}: {text}")
    known: Any = getattr(builtins, kind, None)
    is_error = isinstance(known, type) and issubclass(known, Exception)
    # these two would silently end a loop
    if is_error and not issubclass(known, (StopIteration, StopAsyncIteration)):
        with suppress(TypeError):  # its constructor needs other arguments
            error = known(f"{where}: {text}")
    raise error from cause
