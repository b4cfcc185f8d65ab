"""ZMQ sockets with the options that both ends of a connection need."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from .curve import Keys, secure
from .pyzmq import load_zmq
from .wire import MAX_FRAME_BYTES

if TYPE_CHECKING:
    import zmq

_HANDSHAKE_MS = 2000  # zmq closes a connection whose handshake takes longer
_CURVE_OVERHEAD = 1024  # bytes that encryption may add to a frame (in fact fewer than 64)
_KEEPALIVE = {"TCP_KEEPALIVE": 1, "TCP_KEEPALIVE_IDLE": 2, "TCP_KEEPALIVE_INTVL": 1, "TCP_KEEPALIVE_CNT": 3}


def new_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, hwm: int, keys: Keys | None) -> zmq.Socket[bytes]:
    """
    Create a socket that is not yet bound or connected.

    Args:
        context: the ZMQ context.
        kind: zmq.PUSH or zmq.PULL.
        hwm: high-water mark: maximum number of messages that wait for each peer.
        keys: keys of the secret, or None without a secret.

    Returns:
        The socket. Closing it discards unsent messages.
    """
    zmq = load_zmq()
    socket = context.socket(kind)
    socket.set_hwm(hwm)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    # despite its name, the option limits the size of a frame
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES + _CURVE_OVERHEAD)
    for option, value in _KEEPALIVE.items():
        socket.setsockopt(getattr(zmq, option), value)
    if keys is not None:
        secure(socket, keys)
    return socket


def attach(socket: zmq.Socket[bytes], address: str, bind: bool, who: str) -> None:
    """
    Bind or connect a socket.

    Args:
        socket: result of `new_socket`.
        address: "tcp://..." or "ipc://...".
        bind: bind instead of connect.
        who: the class or function, for errors.

    Raises:
        zmq.ZMQError: the address cannot be used; the socket is closed.
    """
    zmq = load_zmq()
    try:
        (socket.bind if bind else socket.connect)(address)
    except zmq.ZMQError as error:
        socket.close()
        verb = "bind to" if bind else "connect to"
        raise zmq.ZMQError(error.errno, f"{who}: cannot {verb} {address!r}: {error.strerror}") from error


class IpcFile:
    """
    The file of an "ipc://" address, at the end that binds. ZMQ creates the file and does not remove it.

    Args:
        address: any address; addresses without a file are ignored.

    Raises:
        FileExistsError: the file exists and is not a socket; ZMQ would delete it.
    """

    def __init__(self, address: str) -> None:
        name = address[len("ipc://") :]
        self._path = name if address.startswith("ipc://") and not name.startswith(("@", "*")) else ""
        self._inode: int | None = None
        if self._path and os.path.exists(self._path) and not stat.S_ISSOCK(os.stat(self._path).st_mode):
            raise FileExistsError(f"{address!r} is a file (expected a socket of an earlier run). Choose another name.")

    def remember(self) -> None:
        """Record which file ZMQ has created."""
        if self._path:
            self._inode = os.stat(self._path).st_ino

    def remove(self) -> None:
        """Remove the file, unless another process has created a new one of the same name."""
        with suppress(FileNotFoundError):
            if self._inode is not None and os.stat(self._path).st_ino == self._inode:
                os.remove(self._path)
