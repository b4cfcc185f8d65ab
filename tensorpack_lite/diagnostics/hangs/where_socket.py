"""
A socket on which a process answers where it is. Only processes of the same user on the same machine get an answer.

The socket is in the abstract namespace of Linux, so no file is left behind. Elsewhere there is none.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from contextlib import suppress
from typing import Callable

_SECONDS = 2.0  # for one peer to read its answer
_MAX_BYTES = 1 << 24


class NoAnswer(Exception):
    """The process exists, and did not answer in time."""


def listen() -> socket.socket | None:
    """Return the socket of this process; None if it has one already, or if the system has no such sockets."""
    if not sys.platform.startswith("linux"):
        return None
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(_address(os.getpid()))
        listener.listen(4)
        listener.setblocking(False)
        return listener
    except OSError:
        listener.close()
        return None


def answer(listener: socket.socket, make_text: Callable[[], dict[str, str]]) -> None:
    """
    Answer one process, which `listener` says is there.

    Args:
        listener: result of `listen`.
        make_text: returns the answer.
    """
    with suppress(OSError):  # the other process has gone, or reads too slowly
        connection, _ = listener.accept()
        with connection:
            if _user_of(connection) in (0, os.geteuid()):
                connection.settimeout(_SECONDS)
                connection.sendall(json.dumps(make_text()).encode())


def ask(pid: int, seconds: float) -> dict[str, str] | None:
    """
    Ask a process where it is.

    Args:
        pid: the process.
        seconds: how long to wait.

    Returns:
        Its answer; None if it has no socket.

    Raises:
        NoAnswer: there was no answer in time.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect(_address(pid))
            if _user_of(connection) not in (0, os.geteuid()):
                return None
            with connection.makefile("rb") as file:
                content = file.read(_MAX_BYTES)
        except ConnectionRefusedError:
            return None
        except OSError as error:
            raise NoAnswer(str(error)) from error
    try:
        found = json.loads(content)
    except ValueError as error:
        raise NoAnswer("incomplete answer") from error
    return found if isinstance(found, dict) else None


def _address(pid: int) -> str:
    return f"\0tensorpack_lite-where-{os.geteuid()}-{pid}"


def _user_of(connection: socket.socket) -> int:
    """Return the user of the process at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
