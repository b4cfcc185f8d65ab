"""
Receiver of datapoints: the sockets of `RemoteDataZMQ`, and what counts of that which comes.

In:  messages of `wire.py`, from senders that come and go, and from strangers.
Out: datapoints; or an error that says what went wrong, and where.

With a secret, only senders that know it get as far as sending a message, so all that they report counts. Without one, reports that
would end the iteration count only from a connection over which a valid greeting or datapoint has come. Other messages are
dropped, with one warning for each kind.
"""

from __future__ import annotations

import builtins
import time
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

__all__ = ["Limits", "Receiver"]

_LOOK_SECONDS = 1.0  # how often to look who is there
_LOCAL = ("127.", "localhost:", "[::1]")
_WHO = "RemoteDataZMQ"


class Limits(NamedTuple):
    """
    Limits of a receiver.

    Attributes:
        hwm: messages that wait, at most, for each sender.
        max_bytes: size of a message.
        start_timeout: seconds to wait for the first sender; None for no limit.
        sender_timeout: seconds without a sender after there was one; None for no limit.
    """

    hwm: int
    max_bytes: int
    start_timeout: float | None
    sender_timeout: float | None


class Receiver:
    """
    Receives from one or two addresses.

    Args:
        addresses: of the sockets.
        bind: bind instead of connect.
        allow_pickle: take pickled datapoints, and no others.
        limits: of memory and time.
        keys: of the secret, if there is one.

    Attributes:
        context: ZMQ's.
        dropped: messages that were dropped.
    """

    def __init__(
        self, addresses: list[str], bind: bool, allow_pickle: bool, limits: Limits, keys: Keys | None
    ) -> None:
        self._zmq = zmq = load_zmq()
        self.context = zmq.Context()
        self.dropped = 0
        self._allow_pickle, self._limits, self._has_secret = allow_pickle, limits, keys is not None
        self._ends: list[_End] = []
        self._poller = zmq.Poller()
        self._turn = 0
        self._warned: set[str] = set()
        self._last_dropped = self._last_sender = ""
        self._had_sender = False
        self._stopped = False
        self._looked_at = self._waiting_since = time.monotonic()
        self._alone_since: float | None = time.monotonic()
        try:
            if keys is not None:
                Gatekeeper(self.context, keys)
            for address in addresses:
                self._ends.append(_End(self.context, address, limits, bind, keys))
        except BaseException:  # whatever it is, no sockets stay open behind it
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
            Which of the addresses it came to, 0 or 1, and the datapoint.

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
        """Make `next`, in whatever thread it waits, raise DataFlowTerminated within a second."""
        self._stopped = True

    def close(self) -> None:
        """Close all sockets; those that were bound to a file remove it."""
        closed_by_others = self._is_closed()
        for end in self._ends:
            end.close()
        if not closed_by_others:  # two who close it at once make zmq abort
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
                    f"{_WHO}: whoever reaches {end.address} can {harm}, because there is no secret. Pass secret= to "
                    "send_dataflow_zmq and RemoteDataZMQ."
                )

    # ------------------------------------------------------------------------------------- messages
    def _receive(self) -> tuple[int, Datapoint]:
        while True:
            if self._stopped:
                raise DataFlowTerminated("RemoteDataZMQ: was stopped.")
            if time.monotonic() - self._looked_at > _LOOK_SECONDS:
                self._look_who_is_there()
            is_idle = True
            for _ in self._ends:
                self._turn = (self._turn + 1) % len(self._ends)  # both get their turn
                try:
                    arrived = self._ends[self._turn].take()
                except self._zmq.Again:
                    continue
                is_idle = False
                datapoint = self._read(self._ends[self._turn].connections, arrived)
                if datapoint is not None:
                    return self._turn, datapoint
            if is_idle:
                self._poller.poll(int(_LOOK_SECONDS * 1000))
                self._look_who_is_there()

    def _read(self, connections: Connections, arrived: _Arrived) -> Datapoint | None:
        """Give the datapoint of a message; None for a message without one."""
        counts = self._has_secret or connections.is_proven(arrived.connection)
        try:
            message = arrived.decode(self._allow_pickle)
        except VersionError as error:
            text = f"{error}. Install the same tensorpack_lite on both sides"
            self._complain("version", text, arrived, counts)
            return None
        except WireError as error:
            self._complain("damage", f"{error!s:.300}", arrived, self._has_secret)
            return None
        if message.kind == "E":
            if counts:
                _raise_sender_error(message.sender, *message.content)
            stage, kind, text, _ = message.content
            told = f"an error of {stage} at {message.sender}: {kind}: {text:.200}"
            self._complain("error", told, arrived, False)
            return None
        if message.kind in "DP" and (message.kind == "P") != self._allow_pickle:
            self._complain("format", self._other_format(message), arrived, counts)
            return None
        connections.prove(arrived.connection)
        self._had_sender, self._last_sender = True, message.sender
        if self._alone_since is not None:
            self._alone_since = time.monotonic()
        return message.content

    def _other_format(self, message: Message) -> str:
        theirs, ours = ("pickle", "msgpack") if message.kind == "P" else ("msgpack", "pickle")
        return (
            f"the sender at {message.sender} uses format={theirs!r}, this receiver {ours!r}. "
            "Pass the same format to send_dataflow_zmq and RemoteDataZMQ"
        )

    def _complain(self, kind: str, text: str, arrived: _Arrived, counts: bool) -> None:
        """Raise, if the peer counts; otherwise drop the message, with a warning for the first one of its kind."""
        if counts:
            raise RuntimeError(f"{_WHO}: {text}.")
        self.dropped += 1
        self._last_dropped = f"from {arrived.host}: {text}"
        if kind not in self._warned:
            self._warned.add(kind)
            where = " or ".join(end.address for end in self._ends)
            logger.warning(
                f"{_WHO}: dropped a message {self._last_dropped}. Only send_dataflow_zmq of tensorpack_lite may send to "
                f"{where}. Further messages like it are counted in `dropped`, and not shown."
            )

    # ------------------------------------------------------------------------------------- who is there
    def _look_who_is_there(self) -> None:
        self._looked_at = now = time.monotonic()
        for end in self._ends:
            end.connections.look()
        if any(end.connections.senders for end in self._ends):
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = now
        limit = self._patience()
        # what was busy elsewhere has not waited
        if limit is not None and now - max(self._alone_since, self._waiting_since) > limit:
            raise RuntimeError(self._nobody_is_there(limit))

    def _patience(self) -> float | None:
        """Give the seconds to wait for a valid message."""
        start, later = self._limits.start_timeout, self._limits.sender_timeout
        if not self._had_sender:
            return start
        if not any(end.connections.open for end in self._ends):
            return later
        # a sender may have come back, and need long for its next datapoint
        return None if start is None or later is None else max(start, later)

    def _nobody_is_there(self, limit: float) -> str:
        where = " and ".join(end.address for end in self._ends)
        reasons = sorted(reason for end in self._ends for reason in end.connections.refused)
        unfinished = sum(end.connections.unfinished for end in self._ends)
        if unfinished:
            secret = "another secret" if self._has_secret else "a secret"
            reasons.append(
                f"{unfinished} connections ended in ZMQ's handshake, of strangers or of senders with {secret}"
            )
        if self.dropped:
            reasons.append(f"{self.dropped} messages were dropped, the last one {self._last_dropped}")
        seen = f" Seen instead: {'; '.join(reasons)}." if reasons else ""
        if not self._had_sender:
            return f"{_WHO}: no sender came to {where} for {limit:g} seconds.{seen} Run send_dataflow_zmq(df, {where!r})."
        return (
            f"{_WHO}: all senders of {where} have vanished, for {limit:g} seconds by now. The last message was from "
            f"{self._last_sender}.{seen} Were they killed or stopped? Pass sender_timeout to wait longer."
        )


class _Arrived(NamedTuple):
    """
    One message, not read yet.

    Attributes:
        frames: `zmq.Frame`s of the message; empty if it was too large.
        connection: file descriptor of the connection that it came over; -1 if unknown.
        host: address of the peer.
        max_bytes: size that it may have.
    """

    frames: list[Any]
    connection: int
    host: str
    max_bytes: int

    def decode(self, allow_pickle: bool) -> Message:
        """Read the message; raises what `wire.decode` raises."""
        if not self.frames:
            raise WireError(f"a message that is too large (expected at most {self.max_bytes} bytes)")
        return decode([frame.buffer for frame in self.frames], allow_pickle)


class _End:
    """One address: its socket, and the connections to it."""

    def __init__(
        self, context: zmq.Context, address: str, limits: Limits, bind: bool, keys: Keys | None
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
        """Take a message that has come, or raise zmq.Again. The frames of a message that is too large are not kept."""
        zmq = self._zmq
        frame = self.socket.recv(zmq.NOBLOCK, copy=False)
        connection, host = _origin(frame)
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
                return _Arrived(frames, connection, host, self._max_bytes)
            frame = self.socket.recv(copy=False)

    def close(self) -> None:
        self.connections.close()
        self.socket.close(0)
        self._file.remove()


def _origin(frame: Any) -> tuple[int, str]:
    """Return the file descriptor of the connection that a frame came over, and the peer's address."""
    zmq = load_zmq()
    try:
        return int(frame.get(zmq.SRCFD)), str(frame.get("Peer-Address"))
    except zmq.ZMQError:  # libzmq knows neither for some kinds of connection
        return -1, "an unknown address"


def _raise_sender_error(sender: str, stage: str, kind: str, text: str, trace: str) -> NoReturn:
    """Raise the error of a sender. Only its text has come, so only exceptions that Python has by itself keep their type."""
    cause = RuntimeError(f"At {sender}:\n{trace}")
    where = f"RemoteDataZMQ: {stage} failed at the sender ({sender})"
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception) and known.__module__ == "builtins":
        try:
            error = known(f"{where}: {text}")
        except TypeError:  # takes more than a text
            error = None
        if error is not None and not isinstance(error, (StopIteration, StopAsyncIteration)):
            raise error from cause
    raise RuntimeError(f"{where}: {kind}: {text}") from cause
