"""
Authentication of the ranks' channel.

A rank and the hub prove to each other that they know the secret of the job before either reads anything else.
Each draws a fresh random challenge and answers the challenge of the other with an HMAC (SHA-256) over both,
so a recorded greeting cannot be replayed:

    rank:  tensorpack_lite ranks 3 <challenge of the rank>
    hub:   <challenge of the hub> <HMAC of the hub>
    rank:  <HMAC of the rank>

The key of these HMACs is itself one, of the secret over the name of the job, so that a rank does not take the hub of
another job, or of another attempt of this job, for its own. Without a secret both use an empty one, which proves
nothing to an attacker. Then the hub only accepts connections from this machine and from the hosts of the cluster. The
proof covers the greeting: later messages are neither signed nor encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import time
from typing import Iterable, Sequence

from ..utils.naming import list_names
from ..utils.secret import find_job_secret
from .loopback import is_loopback
from .messages import Lines

GREETING_SECONDS = 10.0
"""Time limit of a greeting."""

MAX_GREETING_BYTES = 4096
"""Longest line that is read from a peer that has not authenticated itself."""

_PROTOCOL = b"tensorpack_lite ranks 3"
_CHALLENGE_BYTES = 32
_RESOLVE_SECONDS = 5.0
_MAX_LISTED = 4  # hosts in a log line


class AuthenticationError(ConnectionError):
    """A peer did not prove that it knows the secret."""


class Credentials:
    """
    Conditions for a peer to join a job: it knows the secret, or, if the job has none, connects from a known address.

    Args:
        secret: secret of the job, or an empty string.
        hosts: names or addresses of the machines of the cluster; used only without a secret.
        job: the name of the job, which differs from those of other jobs.
        variables: the variables that tell ranks their numbers, in words; for error messages.
        rank_hosts: for each rank the name of its machine, for error messages; empty if they are not known.

    Attributes:
        secret: the secret, as bytes.
        key: the key with which ranks of this job authenticate each other.
        variables, rank_hosts: as given.
    """

    def __init__(
        self,
        secret: str,
        hosts: Iterable[str] = (),
        job: str = "",
        variables: str = "TF_CONFIG",
        rank_hosts: Sequence[str] = (),
    ) -> None:
        self.secret = secret.encode("utf-8")
        self.key = hmac.new(self.secret, job.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()
        self.variables, self.rank_hosts = variables, rank_hosts
        self._hosts = list(dict.fromkeys(host for host in hosts if not is_loopback(host)))
        self._addresses: set[str] = set()
        self._resolved_at = float("-inf")

    @staticmethod
    def from_environment(hosts: Iterable[str] = ()) -> Credentials:
        """Return credentials with the secret of the environment; raises what `find_job_secret` raises."""
        return Credentials(find_job_secret(), hosts)

    def describe(self) -> str:
        """Describe in a sentence which peers are accepted."""
        if self.secret:
            return "Secret: set."
        hosts = ["this machine", *self._hosts]
        return f"Secret: none; only {list_names(hosts, _MAX_LISTED + 1)} may connect."

    def admits(self, peer: str, own: str) -> bool:
        """
        Return whether a connection may try to authenticate.

        Args:
            peer: the address that it comes from.
            own: the address of this machine that it goes to.
        """
        if self.secret or is_loopback(peer) or peer == own:
            return True
        if peer not in self._addresses and time.monotonic() - self._resolved_at > _RESOLVE_SECONDS:
            for host in self._hosts:
                try:
                    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                except OSError:
                    continue  # the name of a machine may become known only when the machine starts
                self._addresses.update(str(entry[4][0]) for entry in found)
            self._resolved_at = time.monotonic()
        return peer in self._addresses


class Stranger:
    """
    Connection to the hub whose peer has not authenticated itself yet.

    Args:
        connection: the socket.
        host: the address that it comes from.
        key: that of `Credentials`.

    Attributes:
        connection, host: as given.
        lines: buffer of the bytes that arrive.
        deadline: when the hub closes the connection, on the monotonic clock.
        is_proven: whether the peer has proven that it knows the secret.
    """

    def __init__(self, connection: socket.socket, host: str, key: bytes) -> None:
        self.connection, self.host = connection, host
        self.lines = Lines(MAX_GREETING_BYTES)
        self.deadline = time.monotonic() + GREETING_SECONDS
        self.is_proven = False
        self._key, self._challenge = key, _make_challenge()
        self._expected: bytes | None = None

    def answer(self, line: bytes) -> bytes:
        """
        Check the next line of the greeting, and return the answer of the hub.

        Raises:
            AuthenticationError: the line is not the expected one.
        """
        if self._expected is not None:
            if not hmac.compare_digest(self._expected, line):
                raise AuthenticationError(
                    "it does not know the secret of this job, or belongs to another job or another attempt of this job"
                )
            self.is_proven = True
            return b""
        protocol, _, challenge = line.rpartition(b" ")
        if protocol != _PROTOCOL or len(challenge) != 2 * _CHALLENGE_BYTES:
            raise AuthenticationError(f"it does not speak '{_PROTOCOL.decode()}'")
        self._expected = _prove(self._key, b"rank", challenge, self._challenge)
        return self._challenge + b" " + _prove(self._key, b"hub", challenge, self._challenge) + b"\n"


def authenticate(connection: socket.socket, key: bytes, seconds: float = GREETING_SECONDS) -> None:
    """
    Authenticate the hub, then prove to it that this rank belongs to the job.

    Args:
        connection: to the hub. Its timeout is changed.
        key: that of `Credentials`.
        seconds: time limit.

    Raises:
        AuthenticationError: the other end does not know the secret, belongs to another job, or is not a hub.
        OSError: the connection was closed, or the time limit has passed.
    """
    challenge, deadline = _make_challenge(), time.monotonic() + seconds
    connection.settimeout(seconds)
    connection.sendall(_PROTOCOL + b" " + challenge + b"\n")
    theirs, _, proof = _read_line(connection, deadline).partition(b" ")
    if not hmac.compare_digest(_prove(key, b"hub", challenge, theirs), proof):
        raise AuthenticationError(
            "the other end did not prove that it knows the secret of this rank: it has another one, or belongs to another job or to "
            "another attempt of this job"
        )
    connection.sendall(_prove(key, b"rank", challenge, theirs) + b"\n")


def _read_line(connection: socket.socket, deadline: float) -> bytes:
    lines = Lines(MAX_GREETING_BYTES)
    while True:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        data = connection.recv(MAX_GREETING_BYTES)
        if not data:
            raise ConnectionResetError("the connection was closed")
        try:
            complete = lines.feed(data)
        except ValueError as error:
            raise AuthenticationError("the other end is not a hub") from error
        if complete:
            return complete[0]


def _make_challenge() -> bytes:
    return secrets.token_hex(_CHALLENGE_BYTES).encode("ascii")


def _prove(key: bytes, role: bytes, of_rank: bytes, of_hub: bytes) -> bytes:
    """Return the HMAC over both challenges. The role prevents an end from sending back the proof of the other."""
    message = b"\n".join([_PROTOCOL, role, of_rank, of_hub])
    return hmac.new(key, message, hashlib.sha256).hexdigest().encode("ascii")
