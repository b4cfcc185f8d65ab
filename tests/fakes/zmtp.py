"""Helpers that send raw bytes to a ZMQ socket (ZMTP 3.0, https://rfc.zeromq.org/spec/23/)."""

from __future__ import annotations

import socket
import struct

__all__ = ["closes", "command", "frame", "greeting", "knock", "shake_hands"]


def greeting(mechanism: bytes = b"NULL", version: bytes = b"\x03\x00") -> bytes:
    """Return the first 64 bytes of a connection."""
    return b"\xff" + bytes(8) + b"\x7f" + version + mechanism.ljust(20, b"\0") + bytes(32)


def command(name: bytes, body: bytes = b"") -> bytes:
    """Return a command."""
    content = bytes([len(name)]) + name + body
    return b"\x06" + struct.pack(">Q", len(content)) + content


def frame(content: bytes, more: bool = False) -> bytes:
    """Return one frame of a message."""
    return bytes([2 | more]) + struct.pack(">Q", len(content)) + content


def knock(address: str) -> socket.socket:
    """Open a TCP connection and send nothing."""
    host, port = address[len("tcp://") :].split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def shake_hands(address: str) -> socket.socket:
    """Connect like a PUSH socket without a secret, and wait until the peer answers or closes the connection."""
    connection = knock(address)
    properties = b"\x0bSocket-Type" + struct.pack(">I", 4) + b"PUSH"
    connection.sendall(greeting() + command(b"READY", properties))
    answer, received = b"", b"?"
    while received and b"READY" not in answer:  # a peer that sends a message earlier is disconnected
        try:
            received = connection.recv(4096)
        except ConnectionResetError:
            received = b""
        answer += received
    return connection


def closes(connection: socket.socket) -> bool:
    """Read until the peer closes the connection. Return False if it does not within 20 seconds."""
    try:
        while connection.recv(4096):
            pass
    except socket.timeout:
        return False
    except OSError:
        pass
    return True
