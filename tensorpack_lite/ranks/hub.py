"""Hub of the ranks' channel: it runs in the chief's process and connects all ranks."""

from __future__ import annotations

import collections
import selectors
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Deque, NamedTuple

from ..utils import logger
from ..utils.naming import list_names
from ..utils.notes import write_note
from .authentication import MAX_GREETING_BYTES, Credentials, Stranger
from .connecting import plain_host
from .diagnosis import RankState, describe, describe_loss, find_failure, interval_seconds, still_seconds
from .gathers import Gathers
from .messages import Lines, max_line_bytes, pack, parse

ANSWER_SECONDS = 4.0
"""How long the hub waits for the answers of the ranks."""

MAX_CHARACTERS = 20_000
"""Length of the longest answer that counts; the rest is cut off."""

_MAX_NAMED = 16  # ranks in a message
_MAX_STRANGERS = 256  # connections at a time that have yet to prove that they belong to the job
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class _Rank(RankState):
    """A connected rank: its state, its socket, and the lines that it has not read yet."""

    def __init__(self, number: int, connection: socket.socket, lines: Lines) -> None:
        super().__init__(number)
        self.connection, self.lines = connection, lines
        self.unsent: Deque[memoryview] = collections.deque()
        self.wrote = self.heard  # when `unsent` last became shorter
        self.answer: str | None = None  # to the question where it is

    @property
    def is_connected(self) -> bool:
        return self.connection.fileno() >= 0


class _Inquiry(NamedTuple):
    """A question to all ranks: where are you, and for whom do you wait?"""

    deadline: float  # for the answers, on the monotonic clock
    futures: list[Future[dict[int, str]]]  # receive the answers
    failure: str | None  # ends training after the answers


class RankHub(threading.Thread):
    """
    Thread of the chief's process to which all ranks, including the chief, are connected.

    When a rank fails, dies, is silent, or keeps the others waiting for longer than the time limit, the hub ends training
    on all ranks with one sentence. If it found the reason itself, it first asks all ranks where they are, and logs their
    answers. No rank can block the others: messages that a rank has not read yet are buffered. The hub drops a rank that
    reads nothing for the time limit, or that leaves more unread than a gather of the longest values needs.

    A connection counts only after its peer has authenticated itself and has sent its rank. Until then the hub
    keeps at most 256 connections, for at most 10 s each; a new connection replaces the oldest. When every
    rank is connected, the hub stops listening.

    Args:
        listener: a bound and listening socket; the hub closes it.
        size: number of ranks.
        time_limit: seconds.
        credentials: the conditions for a peer to join.
    """

    def __init__(self, listener: socket.socket, size: int, time_limit: float, credentials: Credentials) -> None:
        super().__init__(name="RankHub", daemon=True)
        self._listener, self._size, self._limit = listener, size, time_limit
        self._port = listener.getsockname()[1]
        self._credentials, self._max_line = credentials, max_line_bytes()
        self._max_unsent = size * (self._max_line + 1) + (1 << 20)  # the answer of a gather, and many ticks
        self._strangers: dict[socket.socket, Stranger] = {}  # oldest first
        self._ranks: dict[int, _Rank] = {}
        self._gathers, self._still = Gathers(size), still_seconds(size)
        self._failure: str | None = None
        self._inquiry: _Inquiry | None = None
        self._questions: Deque[Future[dict[int, str]]] = collections.deque()
        self._refusal = ""
        self._has_warned = False
        self._start = time.monotonic()
        self._selector = selectors.DefaultSelector()  # its data: the Stranger or the _Rank of a socket
        listener.setblocking(False)
        self._accept_more(True)

    def run(self) -> None:
        """Serve until every rank has left."""
        last, interval = time.monotonic(), interval_seconds(self._size)
        try:
            while not (self._ranks and all(rank.has_left for rank in self._ranks.values())):
                for key, events in self._selector.select(interval):
                    if events & _WRITE and key.data.is_connected:
                        self._flush(key.data)
                    if events & _READ:
                        self._read(key)
                now = time.monotonic()
                # this process was stopped, so it could not receive from the ranks
                if now - last > self._still:
                    for rank in self._ranks.values():
                        rank.heard = rank.since = rank.wrote = now
                if now - last > interval:
                    self._tick(now)
                    last = now
        finally:
            for connection in [*self._strangers, *(rank.connection for rank in self._ranks.values())]:
                connection.close()
            self._listener.close()
            self._selector.close()

    def ask_all(self) -> Future[dict[int, str]]:
        """Ask all ranks where they are; any thread may call it. Return a future with the text of each rank."""
        future: Future[dict[int, str]] = Future()
        self._questions.append(future)
        return future

    def _read(self, key: selectors.SelectorKey) -> None:
        """Read from a socket that was readable in the last `select`."""
        if key.fileobj is self._listener:
            self._accept()
        elif isinstance(key.data, Stranger):
            if key.data.connection in self._strangers:  # else closed since
                self._hear_stranger(key.data)
        elif key.data.is_connected:
            self._hear_rank(key.data)

    # Strangers -------------------------------------------------------------------------------------------------------
    def _accept(self) -> None:
        try:
            connection, address = self._listener.accept()
            host, own_host = plain_host(address), plain_host(connection.getsockname())
        except OSError:  # the peer has gone, or too many files are open; the next tick tries again
            self._accept_more(False)
            return
        if not self._credentials.admits(host, own_host):
            self._warn_of(host, "it does not belong to this cluster")
            connection.close()
            return
        if len(self._strangers) >= _MAX_STRANGERS:
            self._drop(next(iter(self._strangers)))
        connection.setblocking(False)
        stranger = Stranger(connection, host, self._credentials.key)
        self._strangers[connection] = stranger
        self._selector.register(connection, _READ, stranger)

    def _accept_more(self, wanted: bool) -> None:
        accepts = self._listener in self._selector.get_map()
        if wanted and not accepts:
            self._selector.register(self._listener, _READ)
        elif accepts and not wanted:
            self._selector.unregister(self._listener)

    def _stop_listening(self) -> None:
        """All ranks are connected: let the kernel refuse other connections."""
        self._accept_more(False)
        # Where a listening socket cannot be shut down (not on Linux), connections wait in the kernel's bounded queue.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for connection in list(self._strangers):
            self._drop(connection)

    def _hear_stranger(self, stranger: Stranger) -> None:
        try:
            data = stranger.connection.recv(MAX_GREETING_BYTES)
            if not data:
                raise ConnectionResetError("it closed the connection")
            lines = stranger.lines.feed(data)
            while lines and not stranger.is_proven:
                stranger.connection.sendall(stranger.answer(lines.pop(0)))
            if len(lines) > 1:
                raise ValueError("it did not wait for the welcome")
            if lines:
                self._greet(stranger, parse(lines[0]))
        except (OSError, ValueError) as error:
            self._warn_of(stranger.host, str(error))
            self._drop(stranger.connection)

    def _greet(self, stranger: Stranger, message: dict[str, Any]) -> None:
        """Welcome an authenticated peer as the rank that it claims to be."""
        if message["type"] != "hello":
            raise ValueError("it did not send its rank")
        number, size, connection = message["rank"], message["size"], stranger.connection
        if number in self._ranks and self._ranks[number].has_left:
            raise ValueError("it belongs to the next training, which has another hub")
        if size != self._size or not 0 <= number < self._size or number in self._ranks:
            self._refuse(connection, number, size)
            return
        if message["address"] != stranger.host:
            logger.warning(
                f"Rank {number} connects from {stranger.host}, and its own address is {message['address'][:100]}: the network translates "
                "addresses, so ranks may not reach each other. Give them a network without that; see docs/several_machines.md."
            )
        del self._strangers[connection]
        stranger.lines.max_bytes = self._max_line
        rank = self._ranks[number] = _Rank(number, connection, stranger.lines)
        self._selector.modify(connection, _READ, rank)
        if len(self._ranks) == self._size:
            self._stop_listening()
        self._send(rank, pack({"type": "welcome"}))
        if self._failure is not None:
            self._send(rank, pack({"type": "failed", "text": self._failure}))

    def _refuse(self, connection: socket.socket, number: int, size: int) -> None:
        """Refuse a rank that does not match. If it knows the secret, the job is misconfigured, and all ranks end."""
        self._refusal = (
            f"A process connected as rank {number} of {size}, but rank 0 expects {self._size} ranks, each once. "
            f"Compare {self._credentials.variables} of all processes."
        )
        if self._credentials.secret:
            self._fail(self._refusal)
        with suppress(OSError):  # the peer has gone
            connection.sendall(pack({"type": "failed", "text": self._refusal}))
        self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        del self._strangers[connection]
        self._selector.unregister(connection)
        connection.close()

    def _warn_of(self, host: str, reason: str) -> None:
        """Log only the first connection that was refused, because there may be many."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                f"Rank 0 refused a connection from {host} to the ranks' channel: {reason}. Further refused connections are "
                "not logged."
            )

    # Ranks -----------------------------------------------------------------------------------------------------------
    def _hear_rank(self, rank: _Rank) -> None:
        cause = ""
        try:
            data = rank.connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError as error:
            data, cause = b"", describe_loss(error)
        if not data:
            self._lose(rank, "died without reporting an error", cause)
            return
        rank.heard = time.monotonic()
        try:
            for line in rank.lines.feed(data):
                self._receive(rank, parse(line))
        except ValueError as error:
            self._lose(rank, f"sent a message that rank 0 rejects: {error}")

    def _receive(self, rank: _Rank, message: dict[str, Any]) -> None:
        if message["type"] == "status":
            rank.update(message["status"])
        elif message["type"] == "gather":
            rank.since = rank.heard  # a rank that starts a gather is not stuck
            for number, line in enumerate(self._gathers.add(rank.number, message)):
                self._send(self._ranks[number], line)
        elif message["type"] == "fail":
            self._fail(message["text"])
        elif message["type"] == "place":
            rank.answer = message["text"][:MAX_CHARACTERS]
        elif message["type"] == "bye":
            rank.has_left, rank.since = True, rank.heard
        else:
            raise ValueError(f"'{message['type']}' is not for rank 0")

    def _lose(self, rank: _Rank, reason: str, cause: str = "") -> None:
        """Close the connection of a rank; unless it said goodbye, training fails for the reason."""
        if not rank.has_left:
            rank.has_left = True
            self._fail(f"Rank {rank.number} {reason}, {describe(rank.status)}.{cause} Look at its own output.")
        if rank.is_connected:
            self._selector.unregister(rank.connection)
            rank.connection.close()
            rank.unsent.clear()

    # Sending ---------------------------------------------------------------------------------------------------------
    def _tick(self, now: float) -> None:
        for stranger in [candidate for candidate in self._strangers.values() if now > candidate.deadline]:
            self._warn_of(stranger.host, "it did not finish its greeting in time")
            self._drop(stranger.connection)
        self._accept_more(len(self._ranks) < self._size)
        for rank in self._ranks.values():
            if rank.unsent:
                rank.since = now  # the rank has not had time to react to these messages, so it is not stuck
                if now - rank.wrote > self._limit:
                    self._lose(rank, f"has read nothing for {self._limit:g} s")
        if self._inquiry is not None:
            self._end_inquiry(self._inquiry, now)
        elif self._failure is None:
            missing = self._find_missing(now)
            if missing:
                self._fail(missing)
            else:
                self._begin_inquiry(now)
        statuses = [rank.status for rank in self._ranks.values()]
        num_know_end = sum(status.get("last_step") is not None for status in statuses)
        tick = {
            "type": "tick",
            "chief": self._ranks[0].status if 0 in self._ranks else {},
            "signal": next((status["signal"] for status in statuses if status.get("signal")), None),
            "all_know_end": num_know_end == self._size,
        }
        self._broadcast(tick)

    def _begin_inquiry(self, now: float) -> None:
        """Ask all ranks where they are, if somebody wants to know or training is about to end."""
        failure = find_failure(self._ranks.values(), self._gathers.joined(), self._limit, now, self._still)
        if failure is None and not self._questions:
            return
        futures = [self._questions.popleft() for _ in range(len(self._questions))]
        self._inquiry = _Inquiry(now + ANSWER_SECONDS, futures, failure)
        for rank in self._ranks.values():
            rank.answer = None
        self._broadcast({"type": "ask"})

    def _end_inquiry(self, inquiry: _Inquiry, now: float) -> None:
        """Pass on the answers when every rank that is present has answered, or the time is over."""
        is_answered = all(rank.answer is not None or rank.has_left for rank in self._ranks.values())
        if not is_answered and now <= inquiry.deadline and self._failure is None:
            return
        self._inquiry = None
        answers = {
            number: rank.answer
            or f"{'It has left' if rank.has_left else 'It does not answer'}, {describe(rank.status)}."
            for number, rank in sorted(self._ranks.items())
        }
        for future in inquiry.futures:
            future.set_result(answers)
        if inquiry.failure is not None and self._failure is None:
            places = "\n".join(f"Rank {number}: {text}" for number, text in answers.items())
            text = f"{inquiry.failure} The ranks say:\n{places}"
            logger.error(text)
            write_note("hang", text)
            self._fail(inquiry.failure)

    def _find_missing(self, now: float) -> str | None:
        if len(self._ranks) == self._size or now - self._start < self._limit:
            return None
        missing, hosts = [i for i in range(self._size) if i not in self._ranks], self._credentials.rank_hosts
        named = missing[:_MAX_NAMED]
        machines = f" ({', '.join(dict.fromkeys(hosts[i] for i in named))})" if hosts else ""
        return (
            f"{'Rank' if len(missing) == 1 else 'Ranks'} {list_names(list(map(str, missing)), _MAX_NAMED)} of {self._size}{machines} did not "
            f"connect within {self._limit:g} s. Is each one started, and can it reach port {self._port} of rank 0's machine "
            f"(TENSORPACK_RANKS_ADDRESS or TENSORPACK_RANKS_PORTS chooses another)? {self._refusal}"
        ).rstrip()

    def _fail(self, text: str) -> None:
        if self._failure is None:
            self._failure = text
            self._broadcast({"type": "failed", "text": text})

    def _broadcast(self, message: dict[str, Any]) -> None:
        line = pack(message)
        for rank in self._ranks.values():
            self._send(rank, line)

    def _send(self, rank: _Rank, line: bytes) -> None:
        """Send as much of a line as the rank takes now, and buffer the rest."""
        if not rank.is_connected:
            return
        num_unsent = len(line) + sum(map(len, rank.unsent))
        if num_unsent > self._max_unsent:
            self._lose(rank, f"has not read {num_unsent >> 20} MB that rank 0 sent")
            return
        if not rank.unsent:
            rank.wrote = time.monotonic()
        rank.unsent.append(memoryview(line))
        self._flush(rank)

    def _flush(self, rank: _Rank) -> None:
        try:
            while rank.unsent:
                num_sent = rank.connection.send(rank.unsent[0])
                rank.wrote = time.monotonic()
                if num_sent == len(rank.unsent[0]):
                    rank.unsent.popleft()
                else:
                    rank.unsent[0] = rank.unsent[0][num_sent:]
        except BlockingIOError:
            pass
        except OSError:
            # The rank is gone. Its last messages can still be read, and then the end of the stream.
            rank.unsent.clear()
            with suppress(OSError):
                rank.connection.shutdown(socket.SHUT_RDWR)
        self._selector.modify(rank.connection, _READ | _WRITE if rank.unsent else _READ, rank)
