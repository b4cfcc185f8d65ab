"""
The sockets of `RemoteDataZMQ`: messages in, datapoints out, and a look at who is still there.

In:  messages of `wire.py`, from senders that come and go.
Out: datapoints; or an error that says what went wrong, and where.

Who is there is seen by zmq's monitor: it tells of each connection that is made and that ends, and a process that dies ends
its own at once. That a whole machine is gone is noticed by TCP's keepalive, within some seconds.
"""

from __future__ import annotations

import builtins
import os
import stat
import time
from typing import TYPE_CHECKING, NoReturn

from ...utils import logger
from ..base import DataFlowTerminated, Datapoint
from .pyzmq import load_zmq
from .wire import VersionError, WireError, decode

if TYPE_CHECKING:
    import zmq

__all__ = ["MAX_BYTES", "IpcFile", "Receiver", "open_socket"]

MAX_BYTES = 1 << 28  # of a frame
_HANDSHAKE_MS = 2000  # a connection that does not speak zmq's protocol is cut after that
_KEEPALIVE = {"TCP_KEEPALIVE": 1, "TCP_KEEPALIVE_IDLE": 2, "TCP_KEEPALIVE_INTVL": 1, "TCP_KEEPALIVE_CNT": 3}
_LOOK_SECONDS = 1.0  # how often to look who is there


def open_socket(context: zmq.Context, kind: int, address: str, hwm: int, bind: bool, who: str) -> zmq.Socket:
    """
    Open one end of a connection.

    Args:
        context: that it belongs to.
        kind: zmq.PUSH or zmq.PULL.
        address: "tcp://..." or "ipc://...".
        hwm: messages that wait, at most.
        bind: bind instead of connect.
        who: the class or function, for errors.

    Returns:
        The socket. What was not sent when it is closed is thrown away.

    Raises:
        zmq.ZMQError: the address cannot be used.
    """
    socket = _new_socket(context, kind, hwm)
    _attach(socket, address, bind, who)
    return socket


class IpcFile:
    """
    The file of an address that begins with "ipc://", at the end that binds. zmq makes it, and leaves it behind.

    Args:
        address: any; for those without a file nothing is done.

    Raises:
        FileExistsError: there is a file that is no socket; zmq would delete it.
    """

    def __init__(self, address: str) -> None:
        name = address[len("ipc://") :]
        self._path = name if address.startswith("ipc://") and not name.startswith(("@", "*")) else ""
        self._inode: int | None = None
        if self._path and os.path.exists(self._path) and not stat.S_ISSOCK(os.stat(self._path).st_mode):
            raise FileExistsError(
                f"{address!r} is a file, and not the socket of another run. Choose another name."
            )

    def remember(self) -> None:
        """Note which file was made."""
        if self._path:
            self._inode = os.stat(self._path).st_ino

    def remove(self) -> None:
        """Remove the file, unless somebody else has made one of that name."""
        try:
            if self._inode is not None and os.stat(self._path).st_ino == self._inode:
                os.remove(self._path)
        except FileNotFoundError:
            pass


class Receiver:
    """
    Receives from one or two addresses.

    Args:
        addresses: of the sockets.
        hwm: messages that wait, at most, for each sender.
        bind: bind instead of connect.
        allow_pickle: take pickled datapoints, and no others.
        timeouts: seconds without a sender, before the first one and after it; None for no limit.

    Attributes:
        context: zmq's.
        dropped: messages that were not a sender's.
    """

    def __init__(
        self,
        addresses: list[str],
        hwm: int,
        bind: bool,
        allow_pickle: bool,
        timeouts: tuple[float | None, float | None],
    ) -> None:
        self._zmq = zmq = load_zmq()
        self.context = zmq.Context()
        self.dropped = 0
        self._allow_pickle = allow_pickle
        self._start_timeout, self._sender_timeout = timeouts
        self._ends: list[_End] = []
        self._poller = zmq.Poller()
        self._turn = 0
        self._last_sender = ""
        self._had_sender = False
        self._stopped = False
        self._alone_since: float | None = time.monotonic()
        self._looked_at = time.monotonic()
        try:
            for address in addresses:
                self._ends.append(_End(self.context, address, hwm, bind))
        except BaseException:  # whatever it is, no sockets stay open behind it
            self.close()
            raise
        for end in self._ends:
            self._poller.register(end.socket, zmq.POLLIN)
            self._poller.register(end.monitor, zmq.POLLIN)

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
        try:
            while True:
                place, frames = self._receive()
                datapoint = self._read(frames)
                if datapoint is not None:
                    return place, datapoint
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

    def _receive(self) -> tuple[int, list[zmq.Frame]]:
        zmq = self._zmq
        while True:
            if self._stopped:
                raise DataFlowTerminated("RemoteDataZMQ: was stopped.")
            if time.monotonic() - self._looked_at > _LOOK_SECONDS:
                self._look_who_is_there()
            for _ in self._ends:
                self._turn = (self._turn + 1) % len(self._ends)  # both get their turn
                try:
                    return self._turn, self._ends[self._turn].socket.recv_multipart(zmq.NOBLOCK, copy=False)
                except zmq.Again:
                    pass
            self._poller.poll(int(_LOOK_SECONDS * 1000))
            self._look_who_is_there()

    def _read(self, frames: list[zmq.Frame]) -> Datapoint | None:
        """Give the datapoint of a message; None for what is none."""
        try:
            message = decode([frame.buffer for frame in frames], self._allow_pickle)
        except VersionError as error:
            raise RuntimeError(
                f"RemoteDataZMQ: {error}. Install the same tensorpack_lite on both sides."
            ) from error
        except WireError as error:
            self._drop(error)
            return None
        self._last_sender = message.sender
        if message.kind == "E":
            _raise_sender_error(message.sender, *message.content)
        if (message.kind == "P") != self._allow_pickle:
            theirs, ours = ("pickle", "msgpack") if message.kind == "P" else ("msgpack", "pickle")
            raise RuntimeError(
                f"RemoteDataZMQ: the sender at {message.sender} uses format={theirs!r}, this receiver {ours!r}. "
                "Pass the same format to send_dataflow_zmq and RemoteDataZMQ."
            )
        return message.content

    def _drop(self, error: WireError) -> None:
        self.dropped += 1
        if self.dropped == 1:
            logger.warning(
                f"RemoteDataZMQ: dropped {error}. Only send_dataflow_zmq of tensorpack_lite may send to "
                f"{' or '.join(end.address for end in self._ends)}. Further ones are counted in `dropped`, and not shown."
            )

    def _look_who_is_there(self) -> None:
        self._looked_at = now = time.monotonic()
        for end in self._ends:
            end.look()
        if any(end.connections for end in self._ends):
            self._had_sender, self._alone_since = True, None
            return
        # between two looks
        came_and_went = not self._had_sender and any(end.had_sender for end in self._ends)
        if came_and_went:
            self._had_sender, self._alone_since = True, now
        if self._alone_since is None:
            self._alone_since = now
        limit = self._sender_timeout if self._had_sender else self._start_timeout
        if limit is not None and now - self._alone_since > limit:
            raise RuntimeError(self._nobody_is_there(limit))

    def _nobody_is_there(self, limit: float) -> str:
        where = " and ".join(end.address for end in self._ends)
        if not self._had_sender:
            return f"RemoteDataZMQ: no sender came to {where} for {limit:g} seconds. Run send_dataflow_zmq(df, {where!r})."
        last = f" The last datapoint was from {self._last_sender}." if self._last_sender else ""
        return (
            f"RemoteDataZMQ: all senders of {where} have vanished, for {limit:g} seconds by now.{last} "
            "Were they killed or stopped? Pass sender_timeout to wait longer."
        )


class _End:
    """One address: its socket, and the connections to it."""

    def __init__(self, context: zmq.Context, address: str, hwm: int, bind: bool) -> None:
        self._zmq = zmq = load_zmq()
        self.address = address
        self.file = IpcFile(address if bind else "")
        self.socket = _new_socket(context, zmq.PULL, hwm)
        self.monitor = self.socket.get_monitor_socket(
            zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED
        )
        self.connections: set[int] = set()  # file descriptors
        self.had_sender = False
        try:
            _attach(self.socket, address, bind, "RemoteDataZMQ")
        except zmq.ZMQError:
            self.close()
            raise
        self.file.remember()

    def look(self) -> None:
        """Read what the monitor has seen since the last look."""
        zmq = self._zmq
        while True:
            try:
                event = zmq.utils.monitor.recv_monitor_message(self.monitor, zmq.NOBLOCK)
            except zmq.Again:
                return
            connection = int(event["value"])
            if event["event"] != zmq.EVENT_DISCONNECTED:
                self.connections.add(connection)
                self.had_sender = True
            elif connection in self.connections:
                self.connections.remove(connection)
                logger.warning(
                    f"RemoteDataZMQ: a sender of {self.address} has gone, {len(self.connections)} left."
                )

    def close(self) -> None:
        self.monitor.close(0)
        self.socket.close(0)
        self.file.remove()


def _new_socket(context: zmq.Context, kind: int, hwm: int) -> zmq.Socket:
    zmq = load_zmq()
    socket = context.socket(kind)
    socket.set_hwm(hwm)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
    for option, value in _KEEPALIVE.items():
        socket.setsockopt(getattr(zmq, option), value)
    return socket


def _attach(socket: zmq.Socket, address: str, bind: bool, who: str) -> None:
    zmq = load_zmq()
    try:
        (socket.bind if bind else socket.connect)(address)
    except zmq.ZMQError as error:
        socket.close()
        verb = "bind to" if bind else "connect to"
        raise zmq.ZMQError(error.errno, f"{who}: cannot {verb} {address!r}: {error.strerror}") from error


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
