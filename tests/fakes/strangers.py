"""Hostile connections to the hub of the ranks' channel."""

from __future__ import annotations

import itertools
import os
import random
import socket
import struct
import threading
from collections import deque
from contextlib import suppress

from tensorpack_lite.ranks.authentication import Credentials, Stranger, authenticate

SECRET = "the secret of the tests"
_NUM_HELD = 300  # connections that stay open at a time, silent or in the middle of a line
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


def greet(rank=1, size=3):
    """Return the first line of the old protocol, without authentication."""
    return b'{"type": "hello", "rank": %d, "size": %d, "token": "tensorpack_lite ranks 1"}\n' % (rank, size)


def record(secret=SECRET):
    """Return a challenge and the proof with which a rank was accepted by another hub."""
    here, there = socket.socketpair()
    with here, there:
        stranger, sent = Stranger(there, "", Credentials(secret).key), []

        def answer():
            while not stranger.is_proven:
                for line in stranger.lines.feed(there.recv(4096)):
                    sent.append(line)
                    there.sendall(stranger.answer(line))

        thread = threading.Thread(target=answer)
        thread.start()
        authenticate(here, Credentials(secret).key)
        thread.join()
    return sent


class Attack:
    """
    Hostile connections of every kind, one after the other.

    Args:
        address: the address of the hub.
    """

    def __init__(self, address):
        self._address, self._random = address, random.Random(1)
        self._challenge, self._proof = record()
        self._held = deque()
        self.num_refused = 0

    def run(self, number):
        """Open `number` connections."""
        kinds = [
            self._send_noise,
            self._send_half_a_greeting,
            self._send_a_long_line,
            self._send_many_brackets,
            self._send_an_old_greeting,
            self._replay,
            self._prove_a_wrong_secret,
            self._send_slowly,
            self._say_nothing,
            self._reset,
        ]
        for kind in itertools.islice(itertools.cycle(kinds), number):
            try:
                connection = socket.create_connection(self._address, timeout=5.0)
            except OSError:  # the hub has stopped listening, or its queue is full
                self.num_refused += 1
                continue
            with suppress(OSError):  # the hub has closed it already
                if kind(connection):
                    self._held.append(connection)
                    if len(self._held) > _NUM_HELD:
                        self._held.popleft().close()
                    continue
            connection.close()

    def close(self):
        """Close the connections that are still open."""
        for connection in self._held:
            connection.close()

    def _send_noise(self, connection):
        connection.sendall(os.urandom(self._random.randrange(1, 20_000)))

    def _send_half_a_greeting(self, connection):
        connection.sendall(b"tensorpack_lite ranks 3 " + self._challenge[:20])
        return True

    def _send_a_long_line(self, connection):
        for _ in range(16):
            connection.sendall(b"x" * (1 << 16))

    def _send_many_brackets(self, connection):
        connection.sendall(b"[" * 200_000 + b"\n")

    def _send_an_old_greeting(self, connection):
        line = self._random.choice([greet(1), greet(1, 9), b'{"type": "hello", "rank": 1e999}\n'])
        connection.sendall(line)

    def _replay(self, connection):
        connection.sendall(self._challenge + b"\n" + self._proof + b"\n" + greet(1))
        connection.sendall(b"tensorpack_lite ranks 3 " + self._challenge + b"\n")

    def _prove_a_wrong_secret(self, connection):
        connection.sendall(self._challenge + b"\n")
        connection.recv(4096)
        connection.sendall(os.urandom(32).hex().encode() + b"\n" + greet(1))

    def _send_slowly(self, connection):
        connection.sendall(b"t")
        for earlier in list(self._held)[-3:]:
            with suppress(OSError):
                earlier.sendall(b"e")
        return True

    def _say_nothing(self, connection):
        return True

    def _reset(self, connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
