"""
A side channel between the ranks of a training, beside whatever engine moves their gradients.

Engines wait for each other without end when a rank is gone. Here each rank says several times a second how it is, so that all
can end, with one sentence that says who is missing.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Callable

from . import logger
from .rank_auth import GREETING_SECONDS, AuthenticationError, Credentials, authenticate
from .rank_hub import INTERVAL_SECONDS, RankHub, describe
from .rank_messages import MAX_LINE_VARIABLE, Lines, max_line_bytes, pack, parse

__all__ = ["RankChannel", "RankError"]

_GRACE_SECONDS = 3.0
_BACKLOG = 128  # so that ranks get through where many strangers come


class RankError(RuntimeError):
    """Training ended because of another rank, or because the ranks do not fit together; the text says which and why."""


class RankChannel:
    """
    This process's end of the side channel; that of rank 0 also runs the hub that all are connected to.

    Args:
        rank: the number of this process.
        size: how many processes there are.
        address: host and port of the hub.
        time_limit: seconds that a rank may be silent, or keep the others waiting.
        where: says how this process is: a dict of `step` (steps done), `where` (words) and `kind`: "step" while it waits for
            a step, "variables" while it waits for those of the chief, "excused" while others have to wait for it, else "busy".
            Called in a thread, several times a second.
        on_hang: called with the sentence when the main thread does not end by itself after a failure. Default: write the
            sentence to stderr and end the process with code 1.
        credentials: what lets a peer in. Default: the secret of the environment, see `secret.find_job_secret`.

    Attributes:
        failure: the sentence, or None as long as all is well.

    Raises:
        RankError: the hub's port is taken or cannot be reached, or a rank did not come, within the time limit.
        OSError: the file with the secret cannot be read, or others can read it.
        ValueError: the secret is too short.

    Note: messages are JSON, at most `$TENSORPACK_RANKS_MAX_LINE_MB` (default 64) MB long, and checked before they are used. Ranks
        and hub authenticate each other first; the messages that follow are neither signed nor encrypted.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        address: tuple[str, int],
        time_limit: float = 300.0,
        where: Callable[[], dict[str, Any]] | None = None,
        on_hang: Callable[[str], None] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.rank, self.size, self.time_limit = rank, size, time_limit
        self.failure: str | None = None
        self.where = where or (lambda: {"kind": "busy", "step": 0, "where": "at its start"})
        self._on_hang = on_hang or _end_process
        self._address = address
        self._credentials = credentials or Credentials.from_environment()
        self._max_line = max_line_bytes()
        self._chief: dict[str, Any] = {}
        self._gathering: str | None = None
        self._gathered: dict[str, list[Any]] = {}
        self._closed = False
        self._is_ending = False
        self._news = threading.Condition()
        self._sending = threading.Lock()
        self._hub: RankHub | None = None
        if rank == 0:
            logger.info(self._credentials.describe())
            self._hub = RankHub(self._listen(), size, time_limit, self._credentials)
            self._hub.start()
        self._socket = self._connect()
        self._heard = time.monotonic()
        self._threads = [
            threading.Thread(target=target, name=f"RankChannel-{target.__name__}", daemon=True)
            for target in (self._listen_to_hub, self._speak)
        ]
        for thread in self._threads:
            thread.start()
        try:
            self.all_gather("hello", rank)
        except BaseException:  # nothing stays open behind an error
            self.close()
            raise

    # What a trainer calls --------------------------------------------------------------------------------------------
    def all_gather(self, name: str, value: Any) -> list[Any]:
        """
        Give a value and get those of all ranks. All must call it, in the same order.

        Args:
            name: what it is about, for the sentence when a rank does not come.
            value: anything that JSON holds.

        Returns:
            The values in the order of ranks.

        Raises:
            RankError: training cannot go on.
            TypeError: JSON cannot hold the value.
            ValueError: the value is too long or nested too deeply.
        """
        return self._gather(name, value, for_chief=False)

    def gather(self, name: str, value: Any) -> list[Any] | None:
        """
        Give a value to the chief: as `all_gather`, but only rank 0 gets the values, and None is returned elsewhere.

        Args:
            name: what it is about, for the sentence when a rank does not come.
            value: anything that JSON holds. Better several times a megabyte than all at once: nothing else is heard meanwhile.

        Raises:
            RankError: training cannot go on.
            TypeError: JSON cannot hold the value.
            ValueError: the value is too long or nested too deeply.
        """
        values = self._gather(name, value, for_chief=True)
        return values if self.rank == 0 else None

    def _gather(self, name: str, value: Any, for_chief: bool) -> list[Any]:
        self.check()
        line = pack({"type": "gather", "name": name, "value": value, "for_chief": for_chief})
        if len(line) > self._max_line:
            raise ValueError(
                f"RankChannel: the value for '{name}' is too long (expected at most {self._max_line >> 20} MB, got "
                f"{len(line) / 2**20:.1f} MB). Set {MAX_LINE_VARIABLE} higher, the same on all ranks."
            )
        self._gathering = name
        self._send_line(line)
        with self._news:
            self._news.wait_for(lambda: name in self._gathered or self.failure is not None)
            self._gathering = None
            if name in self._gathered:
                return self._gathered.pop(name)
        self.check()
        raise RankError(f"{name}: no answer.")  # pragma: no cover (one of the two happened)

    def check(self) -> None:
        """
        Raise what has gone wrong, if anything has.

        Raises:
            RankError: training cannot go on.
        """
        if self.failure is not None:
            self._is_ending = True
            raise RankError(self.failure)

    def wait_for_failure(self, seconds: float) -> str | None:
        """Wait until something is known to have gone wrong, at most so long. Returns the sentence or None."""
        with self._news:
            self._news.wait_for(lambda: self.failure is not None, seconds)
        return self.failure

    def fail(self, text: str) -> None:
        """Tell all ranks that this one cannot go on. The first sentence counts."""
        self._is_ending = True
        self._send({"type": "fail", "text": text})
        self.wait_for_failure(1.0)

    @property
    def is_closed(self) -> bool:
        """Whether this rank has left."""
        return self._closed

    def close(self) -> None:
        """Leave. The others are not told that anything is wrong."""
        if self._closed:
            return
        self._closed = self._is_ending = True
        self._send({"type": "bye"})
        with suppress(OSError):  # the other end was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(2.0)
        self._socket.close()
        if self._hub is not None:
            self._hub.join(2.0)

    # Connecting ------------------------------------------------------------------------------------------------------
    def _listen(self) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(self._address)
        except OSError as error:
            listener.close()
            raise RankError(
                f"Rank 0 cannot listen on {_text(self._address)}, where ranks tell each other how they are: {error.strerror}. "
                "Choose another address in TENSORPACK_RANKS_ADDRESS, the same for all ranks."
            ) from error
        listener.listen(max(self.size, _BACKLOG))
        return listener

    def _connect(self) -> socket.socket:
        deadline, has_warned = time.monotonic() + self.time_limit, False
        while True:
            try:
                return self._say_hello(socket.create_connection(self._address, timeout=2.0))
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RankError(
                        f"Rank {self.rank} could not reach rank 0 at {_text(self._address)} within {self.time_limit:g} s: "
                        f"{error}. Is rank 0 started, does a firewall let this port through, and do both have the same secret?"
                    ) from error
                if isinstance(error, AuthenticationError) and not has_warned:
                    has_warned = True
                    logger.warning(
                        f"Rank {self.rank} does not trust {_text(self._address)}: {error}. It tries again."
                    )
                time.sleep(0.02)

    def _say_hello(self, connection: socket.socket) -> socket.socket:
        try:
            authenticate(connection, self._credentials.secret, min(GREETING_SECONDS, self.time_limit))
            connection.settimeout(self.time_limit)  # for what is sent; what reads waits by itself
            connection.sendall(pack({"type": "hello", "rank": self.rank, "size": self.size}))
            # Without an answer, that was the hub of a training before this one, which just ends.
            if not connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError("the connection was closed")
        except BaseException:  # nothing stays open behind an error
            connection.close()
            raise
        return connection

    # The two threads -------------------------------------------------------------------------------------------------
    def _speak(self) -> None:
        while not self._closed:
            status = self.where()
            if self._gathering is not None:
                status = {**status, "kind": "gather", "where": f"waiting for the others ({self._gathering})"}
            self._send({"type": "status", "status": status})
            silent = time.monotonic() - self._heard
            if silent > self.time_limit and self.rank != 0:
                self._note_silence()
            if self.failure is not None:
                self._see_to_the_end()
                return
            with self._news:
                self._news.wait_for(lambda: self._closed or self.failure is not None, INTERVAL_SECONDS)

    def _see_to_the_end(self) -> None:
        deadline = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < deadline:
            if self._is_ending:
                return
            time.sleep(0.05)
        if not self._is_ending:
            self._on_hang(str(self.failure))

    def _listen_to_hub(self) -> None:
        lines = Lines(self.size * (self._max_line + 1))  # the hub sends the values of all ranks in one line
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while not self._closed and self.failure is None:
                if not selector.select(INTERVAL_SECONDS):
                    continue
                try:
                    data = self._socket.recv(1 << 16)
                except OSError:
                    data = b""
                if not data:
                    if not self._closed:
                        self._note(f"Rank 0, the chief, has died without a word, {describe(self._chief)}.")
                    return
                self._heard = time.monotonic()
                try:
                    for line in lines.feed(data):
                        self._receive(parse(line))
                except ValueError as error:
                    self._note(
                        f"Rank 0, the chief, sent a message that rank {self.rank} does not take: {error}."
                    )

    def _receive(self, message: dict[str, Any]) -> None:
        if message["type"] == "tick":
            self._chief = message["chief"]
        elif message["type"] == "gathered":
            if message["values"] is not None and len(message["values"]) != self.size:
                raise ValueError("it does not have one value for each rank")
            with self._news:
                self._gathered[message["name"]] = message["values"]
                self._news.notify_all()
        elif message["type"] == "failed":
            self._note(message["text"])

    def _note(self, failure: str) -> None:
        with self._news:
            self.failure = self.failure or failure
            self._news.notify_all()

    def _note_silence(self) -> None:
        self._note(
            f"Rank 0, the chief, has been silent for {self.time_limit:g} s, {describe(self._chief)}. Its process is "
            "stopped, or its machine cannot be reached."
        )

    def _send(self, message: dict[str, Any]) -> None:
        self._send_line(pack(message))

    def _send_line(self, line: bytes) -> None:
        with self._sending, suppress(OSError):  # the listening thread finds out what happened
            try:
                self._socket.sendall(line)
            except socket.timeout:  # half of it is on its way: nothing may follow
                self._note_silence()
                self._socket.shutdown(socket.SHUT_WR)


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def _end_process(sentence: str) -> None:
    """End a process whose main thread waits inside TensorFlow, where nothing else reaches it."""
    logger.error(sentence)
    sys.stdout.flush()
    sys.stderr.write(f"tensorpack_lite.utils.ranks.RankError: {sentence}\n")
    sys.stderr.flush()
    os._exit(1)
