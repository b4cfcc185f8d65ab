"""The connection between a rank and the hub: listening on the chief, connecting, and the first message."""

from __future__ import annotations

import itertools
import random
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import Any, Sequence

from ..utils import logger
from .authentication import GREETING_SECONDS, AuthenticationError, authenticate
from .cluster import format_address
from .loopback import is_loopback
from .messages import pack

__all__ = ["RankError"]

_BACKLOG = 128  # so that ranks get through among many hostile connections
_CONNECT_SECONDS = 2.0
_SHORT_SECONDS = 0.5  # at one of several ports, where another program may be
_FIRST_DELAY, _LONGEST_DELAY = 0.02, 1.0
_TCP_INFO_RTT = 68  # offset of tcpi_rtt, in microseconds, in linux/tcp.h
_DELAY_OF_A_RANK = 0.001  # so that many ranks do not make more attempts than a few


class RankError(RuntimeError):
    """Training ended because of another rank, or because the ranks do not match; the message names the rank and the reason."""


def plain_host(address: Sequence[Any]) -> str:
    """Return the host of a socket's address; an IPv4 address without the prefix that it has in an IPv6 socket."""
    host = str(address[0])
    return host[7:] if host.startswith("::ffff:") else host


def listen(host: str, ports: Sequence[int], size: int) -> socket.socket:
    """
    Return the socket on which the hub accepts ranks, at the first port that is free.

    Args:
        host: the host of rank 0. If it belongs to the loopback interface, the socket listens there, else on all interfaces.
        ports: the ports.
        size: the number of ranks.

    Raises:
        RankError: all ports are taken.
    """
    reason = ""
    for port in ports:
        try:
            listener = _bind(host, port)
        except OSError as error:
            reason = reason or f": {error.strerror}"
            continue
        try:
            listener.listen(max(size, _BACKLOG))
            return listener
        except OSError as error:  # another process was faster
            listener.close()
            reason = reason or f": {error.strerror}"
    raise RankError(
        f"Rank 0 cannot listen on {_describe(host, ports)}, the address of the ranks' channel{reason}. Set another address in "
        "TENSORPACK_RANKS_ADDRESS, or other ports in TENSORPACK_RANKS_PORTS, the same for all ranks."
    )


def connect(rank: int, size: int, host: str, ports: Sequence[int], time_limit: float, key: bytes) -> socket.socket:
    """
    Connect a rank to the hub, and introduce it.

    The name of the host is looked up at each attempt, because it may become known only when its machine has started.

    Args:
        rank, size: of this process.
        host: the host of the hub.
        ports: the hub is at one of them; other jobs may be at the others.
        time_limit: seconds until the hub must have answered.
        key: that of `Credentials`.

    Raises:
        RankError: the hub cannot be reached within the time limit.
    """
    deadline, has_warned, delay = time.monotonic() + time_limit, False, _FIRST_DELAY
    place, is_sure = _describe(host, ports), len(ports) == 1
    seconds = GREETING_SECONDS if is_sure else _SHORT_SECONDS
    jitter = random.Random()  # not Python's generator, whose numbers belong to the script
    while True:
        try:
            opened = _open(host, ports, key, min(seconds, time_limit))
            return _say_hello(opened, rank, size, time_limit)
        except OSError as error:
            if time.monotonic() > deadline:
                raise RankError(
                    f"Rank {rank} could not reach rank 0 at {place} within {time_limit:g} s: {error}. Is rank 0 started, does a "
                    "firewall block this port (TENSORPACK_RANKS_ADDRESS or TENSORPACK_RANKS_PORTS chooses others), and do both have "
                    "the same secret?"
                ) from error
            if isinstance(error, AuthenticationError) and is_sure and not has_warned:
                has_warned = True
                logger.warning(f"Rank {rank} does not trust {place}: {error}. It keeps trying.")
        time.sleep(delay * jitter.uniform(0.5, 1.0))
        delay = min(1.5 * delay, max(_FIRST_DELAY, min(_LONGEST_DELAY, size * _DELAY_OF_A_RANK)))
        seconds = min(2 * seconds, GREETING_SECONDS)


def _open(host: str, ports: Sequence[int], key: bytes, seconds: float) -> socket.socket:
    """Return a connection to the hub, which has authenticated itself. An error about that is raised rather than others."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    distrust, failed = None, OSError("its name has no address")
    for address in itertools.product(dict.fromkeys(str(entry[4][0]) for entry in found), ports):
        try:
            connect_seconds = _CONNECT_SECONDS if len(ports) == 1 else _SHORT_SECONDS
            return _greet(socket.create_connection(address, connect_seconds), key, seconds)
        except AuthenticationError as error:
            distrust = distrust or error
        except OSError as error:
            failed = error
    raise distrust or failed


def _greet(connection: socket.socket, key: bytes, seconds: float) -> socket.socket:
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        authenticate(connection, key, seconds)
    except BaseException:  # Ctrl-C too: the connection does not stay open
        connection.close()
        raise
    return connection


def round_trip(connection: socket.socket) -> float:
    """Return the time in seconds that a packet and its answer take, as the kernel has measured it; NaN if it cannot."""
    if not sys.platform.startswith("linux"):
        return float("nan")
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_RTT + 4)
    return float(struct.unpack_from("I", info, _TCP_INFO_RTT)[0]) * 1e-6


def hold_port(ports: Sequence[int]) -> socket.socket:
    """
    Return a socket that keeps a port of all interfaces for a server of this process, which may listen there while the socket is open.

    Args:
        ports: those to choose from; 0 stands for any free port.

    Raises:
        OSError: all are taken.
    """
    for port in ports[:-1]:
        with suppress(OSError):
            return _bind("", port, is_shared=False)
    return _bind("", ports[-1], is_shared=False)


def reach(address: tuple[str, int], seconds: float) -> None:
    """
    Check that a server can be reached, by a connection that is closed at once.

    Raises:
        OSError: it could not be reached within this time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(address, max(0.1, min(_CONNECT_SECONDS, deadline - time.monotonic()))).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_FIRST_DELAY)


def _bind(host: str, port: int, is_shared: bool = True) -> socket.socket:
    """Return a socket that is bound to a port of the loopback interface, or of all interfaces, IPv4 and IPv6."""
    is_local = is_loopback(host)
    is_ipv6 = ":" in host if is_local else socket.has_ipv6
    try:
        bound = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET)
    except OSError:  # the kernel was started without IPv6
        is_ipv6, bound = False, socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, is_shared)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit it
        if is_ipv6 and not is_local:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((("::1" if is_ipv6 else host) if is_local else "", port))
        # a server may be bound to the same port now
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except BaseException:  # the socket does not stay open
        bound.close()
        raise
    return bound


def _describe(host: str, ports: Sequence[int]) -> str:
    more = "" if len(ports) == 1 else f" or {len(ports) - 1} other ports"
    return format_address(host, ports[0]) + more


def _say_hello(connection: socket.socket, rank: int, size: int, time_limit: float) -> socket.socket:
    try:
        connection.settimeout(time_limit)
        own = plain_host(connection.getsockname())
        connection.sendall(pack({"type": "hello", "rank": rank, "size": size, "address": own}))
        # The hub of an earlier training, which is about to end, closes the connection without an answer.
        if not connection.recv(1, socket.MSG_PEEK):
            raise ConnectionResetError("the connection was closed")
    except BaseException:  # Ctrl-C too: the connection does not stay open
        connection.close()
        raise
    return connection
