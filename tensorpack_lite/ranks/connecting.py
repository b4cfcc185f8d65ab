"""The connection between a rank and the hub: listening on the chief, connecting, and the first message."""

from __future__ import annotations

import socket
import time

from ..utils import logger
from .authentication import GREETING_SECONDS, AuthenticationError, authenticate
from .messages import pack

__all__ = ["RankError", "connect", "listen"]

_BACKLOG = 128  # so that ranks get through among many hostile connections


class RankError(RuntimeError):
    """Training ended because of another rank, or because the ranks do not match; the message names the rank and the reason."""


def listen(address: tuple[str, int], size: int) -> socket.socket:
    """
    Return the socket on which the hub accepts ranks.

    Args:
        address: host and port.
        size: the number of ranks.

    Raises:
        RankError: the port is taken.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        host, port = address
        raise RankError(
            f"Rank 0 cannot listen on {host}:{port}, the address of the ranks' channel: {error.strerror}. "
            "Set another address in TENSORPACK_RANKS_ADDRESS, the same for all ranks."
        ) from error
    listener.listen(max(size, _BACKLOG))
    return listener


def connect(
    rank: int, size: int, address: tuple[str, int], time_limit: float, secret: bytes
) -> socket.socket:
    """
    Connect a rank to the hub, and introduce it.

    Args:
        rank, size: of this process.
        address: host and port of the hub.
        time_limit: seconds until the hub must have answered.
        secret: the secret of the job.

    Raises:
        RankError: the hub cannot be reached within the time limit.
    """
    deadline, has_warned = time.monotonic() + time_limit, False
    place = f"{address[0]}:{address[1]}"
    while True:
        try:
            return _say_hello(socket.create_connection(address, timeout=2.0), rank, size, time_limit, secret)
        except OSError as error:
            if time.monotonic() > deadline:
                raise RankError(
                    f"Rank {rank} could not reach rank 0 at {place} within {time_limit:g} s: {error}. Is rank "
                    "0 started, does a firewall block this port, and do both have the same secret?"
                ) from error
            if isinstance(error, AuthenticationError) and not has_warned:
                has_warned = True
                logger.warning(f"Rank {rank} does not trust {place}: {error}. It keeps trying.")
            time.sleep(0.02)


def _say_hello(
    connection: socket.socket, rank: int, size: int, time_limit: float, secret: bytes
) -> socket.socket:
    try:
        authenticate(connection, secret, min(GREETING_SECONDS, time_limit))
        connection.settimeout(time_limit)
        connection.sendall(pack({"type": "hello", "rank": rank, "size": size}))
        # The hub of an earlier training, which is about to end, closes the connection without an answer.
        if not connection.recv(1, socket.MSG_PEEK):
            raise ConnectionResetError("the connection was closed")
    except BaseException:  # Ctrl-C too: the connection does not stay open
        connection.close()
        raise
    return connection
