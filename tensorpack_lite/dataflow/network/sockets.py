"""Sockets of ZMQ with the options that both ends of a connection need."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from .curve import Keys, secure
from .pyzmq import load_zmq
from .wire import MAX_FRAME_BYTES

if TYPE_CHECKING:
    import zmq

__all__ = ["IpcFile", "attach", "new_socket", "open_socket"]

_HANDSHAKE_MS = 2000  # zmq cuts a connection that has not completed the handshake by then
_CURVE_OVERHEAD = 1024  # bytes that encryption may add to a frame; less than 64 in fact
_KEEPALIVE = {"TCP_KEEPALIVE": 1, "TCP_KEEPALIVE_IDLE": 2, "TCP_KEEPALIVE_INTVL": 1, "TCP_KEEPALIVE_CNT": 3}


def open_socket(
    context: zmq.Context, kind: int, address: str, hwm: int, bind: bool, who: str, keys: Keys | None = None
) -> zmq.Socket:
    """
    Open one end of a connection.

    Args:
        context: of ZMQ.
        kind: zmq.PUSH or zmq.PULL.
        address: "tcp://..." or "ipc://...".
        hwm: high-water mark: messages that wait for each peer, at most.
        bind: bind instead of connect.
        who: the class or function, for errors.
        keys: of a secret, if there is one.

    Returns:
        The socket. Closing it discards what was not sent.

    Raises:
        zmq.ZMQError: the address cannot be used.
    """
    socket = new_socket(context, kind, hwm, keys)
    attach(socket, address, bind, who)
    return socket


def new_socket(context: zmq.Context, kind: int, hwm: int, keys: Keys | None) -> zmq.Socket:
    """Create a socket as `open_socket` does, that is not yet bound or connected."""
    zmq = load_zmq()
    socket = context.socket(kind)
    socket.set_hwm(hwm)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES + _CURVE_OVERHEAD)  # of a frame, despite its name
    for option, value in _KEEPALIVE.items():
        socket.setsockopt(getattr(zmq, option), value)
    if keys is not None:
        secure(socket, keys)
    return socket


def attach(socket: zmq.Socket, address: str, bind: bool, who: str) -> None:
    """Bind or connect a socket; close it and raise zmq.ZMQError if that fails."""
    zmq = load_zmq()
    try:
        (socket.bind if bind else socket.connect)(address)
    except zmq.ZMQError as error:
        socket.close()
        verb = "bind to" if bind else "connect to"
        raise zmq.ZMQError(error.errno, f"{who}: cannot {verb} {address!r}: {error.strerror}") from error


class IpcFile:
    """
    File of an address that begins with "ipc://", at the end that binds. ZMQ makes it, and does not remove it.

    Args:
        address: any; those without a file are ignored.

    Raises:
        FileExistsError: there is a file that is not a socket; ZMQ would delete it.
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
        """Remove the file, unless another process has made a new one of that name."""
        try:
            if self._inode is not None and os.stat(self._path).st_ino == self._inode:
                os.remove(self._path)
        except FileNotFoundError:
            pass
