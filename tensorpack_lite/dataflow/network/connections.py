"""
The connections of a socket, as reported by ZMQ's monitor.

Port scanners and health probes also open TCP connections, so a connection counts as a sender only after its first valid
message. A process that dies closes its connection at once; TCP keepalive detects an unreachable machine within seconds.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...utils import logger
from ...utils.secret import SECRET_VARIABLE
from .pyzmq import load_zmq

if TYPE_CHECKING:
    import zmq


class Connections:
    """
    The connections of one socket, identified by their file descriptors.

    Args:
        socket: a socket that is not yet bound or connected.
        address: address of the socket, for messages.
        has_secret: whether this end uses a secret.
        who: the class or function, for messages.

    Attributes:
        monitor: a socket that is readable when `look` has something to do.
        open: all open connections, including those of strangers.
        refused: the reasons why peers were refused, one sentence each.
        unfinished: number of connections that ended before ZMQ's handshake was complete.
    """

    def __init__(self, socket: zmq.Socket[bytes], address: str, has_secret: bool, who: str) -> None:
        self._zmq = zmq = load_zmq()
        self._socket, self._address, self._has_secret, self._who = socket, address, has_secret, who
        self.open: set[int] = set()
        self.refused: set[str] = set()
        self.unfinished = 0
        self._proven: set[int] = set()
        name = f"inproc://monitor-{id(self)}"
        events = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED
        for failure in ("NO_DETAIL", "PROTOCOL", "AUTH"):
            events |= getattr(zmq, f"EVENT_HANDSHAKE_FAILED_{failure}")
        socket.monitor(name, events)
        self.monitor = socket.context.socket(zmq.PAIR)
        self.monitor.setsockopt(zmq.LINGER, 0)
        # no limit: with one, libzmq's only thread would block until this process reads the events
        self.monitor.setsockopt(zmq.RCVHWM, 0)
        self.monitor.connect(name)

    @property
    def senders(self) -> set[int]:
        """Return the open connections that have sent a valid message."""
        return self.open & self._proven

    def look(self) -> None:
        """Process the events since the last call."""
        zmq = self._zmq
        while True:
            try:
                event = zmq.utils.monitor.recv_monitor_message(self.monitor, zmq.NOBLOCK)
            except zmq.Again:
                return
            self._note(int(event["event"]), int(event["value"]))

    def prove(self, connection: int) -> None:
        """Record that a valid message arrived over a connection."""
        if connection not in self.open:
            self.look()  # the connection may be new, or closed while its messages are still being read
        self._proven.add(connection)

    def is_proven(self, connection: int) -> bool:
        """Return whether a valid message has arrived over a connection, even if the connection is closed."""
        return connection in self._proven

    def close(self) -> None:
        """Stop the monitor. The socket itself stays open."""
        with suppress(self._zmq.ContextTerminated):  # the monitor has stopped with the context
            if not self._socket.closed:
                self._socket.monitor(None, 0)
        self.monitor.close(0)

    def _note(self, event: int, value: int) -> None:
        zmq = self._zmq
        if event in (int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_CONNECTED)):
            self.open.add(value)
            self._proven.discard(value)  # an earlier connection had the same file descriptor
        elif event == int(zmq.EVENT_DISCONNECTED):
            was_sender = value in self.senders
            self.open.discard(value)
            if was_sender:
                left = f"{len(self.senders)} left"
                logger.warning(f"{self._who}: a sender of {self._address} has disconnected, {left}.")
        else:
            self.unfinished += 1
            no_secret = int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
            other_secret = int(zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
            if event == int(zmq.EVENT_HANDSHAKE_FAILED_AUTH) or value in (no_secret, other_secret):
                self._refuse()

    def _refuse(self) -> None:
        ours = "has no secret or another one" if self._has_secret else "uses a secret, and this end does not"
        reason = f"the other end of a connection to {self._address} {ours}"
        if reason not in self.refused:
            self.refused.add(reason)
            logger.warning(
                f"{self._who}: refused a connection: {reason}. Pass the same secret to send_dataflow_zmq and RemoteDataZMQ, "
                f"or set {SECRET_VARIABLE} for both."
            )
