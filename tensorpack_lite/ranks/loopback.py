"""Functions that keep the traffic between processes of one machine on that machine (Linux only)."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import ipaddress
import os
import socket
import stat
import struct
import sys
from contextlib import ExitStack, suppress

_LOOPBACK = b"lo\0"
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000  # linux/sched.h
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # linux/sockios.h, linux/if.h
_IFREQ = "16sH22x"


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or an address of the loopback interface, without a name server."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def restrict_to_loopback(port: int) -> None:
    """
    Restrict this process's TCP servers on a port to the loopback interface, and close the connections that
    they already have.

    For servers of libraries that listen on every interface. Afterwards connections from other machines are
    refused. Call this function before the server answers requests; then other machines never get an answer.

    Args:
        port: the port of the server.

    Raises:
        OSError: this process has no server on the port, or the system does not allow it (before Linux 5.7 it
            needs the capability NET_RAW).
    """
    if not sys.platform.startswith("linux"):
        raise OSError(errno.ENOTSUP, "Linux only")
    with ExitStack() as stack:
        servers, _ = _own_sockets(port, stack)
        if not servers:
            raise OSError(errno.ENOTCONN, f"this process does not listen on port {port}")
        for server in servers:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _LOOPBACK)
            server.setblocking(False)
            with suppress(BlockingIOError):  # the connections that the server has not accepted yet
                while True:
                    server.accept()[0].close()
        _, connections = _own_sockets(port, stack)  # accepted before the restriction
        for connection in connections:
            with suppress(OSError):  # the peer has already closed the connection
                connection.shutdown(socket.SHUT_RDWR)


def _own_sockets(port: int, stack: ExitStack) -> tuple[list[socket.socket], list[socket.socket]]:
    """Return duplicates of this process's sockets on a local TCP port: servers and connections. The stack closes them."""
    servers: list[socket.socket] = []
    connections: list[socket.socket] = []
    seen = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.fstat(int(name))
            if not stat.S_ISSOCK(status.st_mode) or status.st_ino in seen:
                continue
            seen.add(status.st_ino)  # one socket may have several descriptors
            found = stack.enter_context(socket.socket(fileno=os.dup(int(name))))
            is_tcp = found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM
            if is_tcp and found.getsockname()[1] == port:
                listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                (servers if listens else connections).append(found)
        except OSError:
            continue  # another thread has closed it meanwhile
    return servers, connections


def enter_private_network() -> None:
    """
    Move this process, and the processes that it starts from now on, into a private network.

    Its only interface is a loopback interface. Processes outside, including those of other users of this
    machine, cannot reach a server in it, and processes in it cannot reach anything outside. The network lasts
    until its last process ends. Without the privilege to create a network directly, the process also enters a
    user namespace, in which it keeps its user and group and loses other privileges.

    Raises:
        OSError: the kernel or the container does not allow it, or this process has several threads.
    """
    if not sys.platform.startswith("linux"):
        raise OSError(errno.ENOTSUP, "Linux only")
    if not _unshare(_CLONE_NEWNET):
        user, group = os.geteuid(), os.getegid()
        if not _unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():  # the kernel requires "deny" before a map of groups
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack(_IFREQ, _LOOPBACK, 0))
        flags = struct.unpack(_IFREQ, request)[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_IFREQ, _LOOPBACK, flags | _IFF_UP))


def _unshare(flags: int) -> bool:
    return ctypes.CDLL(None, use_errno=True).unshare(flags) == 0
