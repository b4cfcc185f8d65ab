"""The hub of the ranks' side channel: it runs in the chief's process, hears how each rank is, and decides when training must end."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from . import logger
from .rank_auth import MAX_GREETING_BYTES, Credentials, Stranger
from .rank_messages import Lines, max_line_bytes, pack, parse

__all__ = ["INTERVAL_SECONDS", "RankHub", "describe"]

INTERVAL_SECONDS = 0.25
"""How often each rank says how it is."""

_STILL_SECONDS = 4 * INTERVAL_SECONDS  # so long the same status, and it is not just old
_SILENT_SHARE = 0.5  # of the time limit: then a rank that others wait for counts as silent, not as slow
_STRANGERS_A_RANK = 4  # connections that may wait for their greeting at a time, for each rank


def describe(status: dict[str, Any]) -> str:
    """Say in words where a rank was last seen."""
    return f"last seen after step {status.get('step', 0)}, {status.get('where', 'at its start')}"


class _Rank:
    """What the hub knows of one rank."""

    def __init__(self, connection: socket.socket, lines: Lines) -> None:
        self.connection, self.lines = connection, lines
        self.heard = self.since = time.monotonic()
        self.status: dict[str, Any] = {}
        self.has_left = False

    def update(self, status: dict[str, Any]) -> None:
        """Note a status, and since when it has been the same."""
        keys = ("kind", "step")
        if [status.get(k) for k in keys] != [self.status.get(k) for k in keys]:
            self.since = time.monotonic()
        self.status = status


class RankHub(threading.Thread):
    """
    Thread of the chief's process to which all ranks, the chief's included, are connected.

    It ends training on all ranks with one sentence when a rank fails, dies, is silent or keeps the others waiting for longer
    than the time limit.

    A connection counts only after its peer has authenticated itself and has said which rank it is. Until then at most 4 connections
    for each rank are kept, for at most 10 s each; the oldest makes room for a new one. When every rank is there, the hub stops
    listening.

    Args:
        listener: a bound and listening socket; the hub closes it.
        size: how many ranks there are.
        time_limit: seconds.
        credentials: what lets a peer in.
    """

    def __init__(
        self, listener: socket.socket, size: int, time_limit: float, credentials: Credentials
    ) -> None:
        super().__init__(name="RankHub", daemon=True)
        self._listener, self._size, self._limit = listener, size, time_limit
        self._credentials, self._max_line = credentials, max_line_bytes()
        self._strangers: dict[socket.socket, Stranger] = {}  # in the order in which they came
        self._ranks: dict[int, _Rank] = {}
        self._numbers: dict[socket.socket, int] = {}
        self._gathers: dict[str, dict[int, Any]] = {}
        self._failure: str | None = None
        self._refusal = ""
        self._has_warned = False
        self._start = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._is_accepting = False
        listener.setblocking(False)
        self._accept_again()

    def run(self) -> None:
        """Serve until every rank has left."""
        last = time.monotonic()
        try:
            while not (self._ranks and all(rank.has_left for rank in self._ranks.values())):
                for key, _ in self._selector.select(INTERVAL_SECONDS):
                    self._read(key.fileobj)
                now = time.monotonic()
                if now - last > _STILL_SECONDS:  # this process did not run: others could not be heard
                    for rank in self._ranks.values():
                        rank.heard = rank.since = now
                if now - last > INTERVAL_SECONDS:
                    self._tick(now)
                    last = now
        finally:
            for connection in [*self._strangers, *self._numbers, self._listener]:
                connection.close()
            self._selector.close()

    def _read(self, connection: Any) -> None:
        """Read from a socket that had something to read when it was last looked at; it may have been closed since."""
        if connection is self._listener:
            self._accept()
        elif connection in self._strangers:
            self._hear_stranger(self._strangers[connection])
        elif connection in self._numbers:
            self._hear_rank(connection)

    # Strangers -------------------------------------------------------------------------------------------------------
    def _accept(self) -> None:
        try:
            connection, (host, _) = self._listener.accept()
            own_host = connection.getsockname()[0]
        except OSError:  # the peer has gone, or this process has too many open files: again at the next tick
            self._pause_accepting()
            return
        if not self._credentials.admits(host, own_host):
            self._warn_of(host, "it does not belong to this cluster")
            connection.close()
            return
        if len(self._strangers) >= _STRANGERS_A_RANK * self._size:
            self._drop(next(iter(self._strangers)))
        connection.setblocking(False)
        self._strangers[connection] = Stranger(connection, host, self._credentials.secret)
        self._selector.register(connection, selectors.EVENT_READ)

    def _pause_accepting(self) -> None:
        if self._is_accepting:
            self._selector.unregister(self._listener)
            self._is_accepting = False

    def _accept_again(self) -> None:
        if not self._is_accepting and len(self._ranks) < self._size:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._is_accepting = True

    def _stop_listening(self) -> None:
        """All ranks are there: whoever comes now is refused by the kernel."""
        self._pause_accepting()
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
                raise ValueError("it did not wait to be welcomed")
            if lines:
                self._greet(stranger, parse(lines[0]))
        except (OSError, ValueError) as error:
            self._warn_of(stranger.host, str(error))
            self._drop(stranger.connection)

    def _greet(self, stranger: Stranger, message: dict[str, Any]) -> None:
        """Take an authenticated peer in as the rank that it says it is."""
        if message["type"] != "hello":
            raise ValueError("it did not say which rank it is")
        number, size, connection = message["rank"], message["size"], stranger.connection
        if number in self._ranks and self._ranks[number].has_left:
            raise ValueError("it comes for the next training, whose hub is not this one")
        if size != self._size or not 0 <= number < self._size or number in self._ranks:
            self._refuse(connection, number, size)
            return
        del self._strangers[connection]
        connection.settimeout(self._limit)
        stranger.lines.max_bytes = self._max_line
        self._ranks[number] = _Rank(connection, stranger.lines)
        self._numbers[connection] = number
        if len(self._ranks) == self._size:
            self._stop_listening()
        self._send(connection, pack({"type": "welcome"}))
        if self._failure is not None:
            self._send(connection, pack({"type": "failed", "text": self._failure}))

    def _refuse(self, connection: socket.socket, number: int, size: int) -> None:
        """Send a rank away that does not fit. If it knows the secret, the job is misconfigured, and all ranks end."""
        self._refusal = (
            f"A process came as rank {number} of {size}, while rank 0 expects {self._size} ranks, each once. "
            "Compare TF_CONFIG of all."
        )
        if self._credentials.secret:
            self._fail(self._refusal)
        self._send(connection, pack({"type": "failed", "text": self._refusal}))
        self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        del self._strangers[connection]
        self._selector.unregister(connection)
        connection.close()

    def _warn_of(self, host: str, reason: str) -> None:
        """Log the first connection that was refused, not each of them: there may be many."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                f"Rank 0 refused a connection from {host} to the ranks' channel: {reason}. Others are refused without a word."
            )

    # Ranks -----------------------------------------------------------------------------------------------------------
    def _hear_rank(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._lose(connection)
            return
        number = self._numbers[connection]
        rank = self._ranks[number]
        rank.heard = time.monotonic()
        try:
            for line in rank.lines.feed(data):
                self._receive(number, parse(line))
        except ValueError as error:
            self._fail(f"Rank {number} sent a message that rank 0 does not take: {error}.")
            self._lose(connection)

    def _receive(self, number: int, message: dict[str, Any]) -> None:
        rank = self._ranks[number]
        if message["type"] == "status":
            rank.update(message["status"])
        elif message["type"] == "gather":
            rank.since = rank.heard  # who comes to meet the others does not stand still
            self._gather(number, message)
        elif message["type"] == "fail":
            self._fail(message["text"])
        elif message["type"] == "bye":
            rank.has_left, rank.since = True, rank.heard
        else:
            raise ValueError(f"'{message['type']}' is not for rank 0")

    def _gather(self, number: int, message: dict[str, Any]) -> None:
        """Note a rank's value; when it is the last one, give all to all ranks, or to the chief alone."""
        if any(number in came for came in self._gathers.values()):
            raise ValueError("it takes part in a gather already")
        values = self._gathers.setdefault(message["name"], {})
        values[number] = message["value"]
        if len(values) < self._size:
            return
        del self._gathers[message["name"]]
        answer = {
            "type": "gathered",
            "name": message["name"],
            "values": [values[i] for i in range(self._size)],
        }
        line, short = pack(answer), pack({**answer, "values": None})
        for connection, other in list(self._numbers.items()):
            self._send(connection, short if message["for_chief"] and other != 0 else line)

    def _lose(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        connection.close()
        number = self._numbers.pop(connection)
        rank = self._ranks[number]
        if not rank.has_left:
            rank.has_left = True
            self._fail(
                f"Rank {number} has died without a word, {describe(rank.status)}. Look at its own output."
            )

    # What goes out ---------------------------------------------------------------------------------------------------
    def _tick(self, now: float) -> None:
        for stranger in [each for each in self._strangers.values() if now > each.deadline]:
            self._warn_of(stranger.host, "it did not finish its greeting in time")
            self._drop(stranger.connection)
        self._accept_again()
        if self._failure is None:
            looks = (self._missing, self._silent, self._left, self._parted, self._behind)
            sentence = next(filter(None, (look(now) for look in looks)), None)
            if sentence:
                self._fail(sentence)
        chief = self._ranks[0].status if 0 in self._ranks else {}
        self._broadcast({"type": "tick", "chief": chief})

    def _missing(self, now: float) -> str | None:
        if len(self._ranks) == self._size or now - self._start < self._limit:
            return None
        never = [i for i in range(self._size) if i not in self._ranks]
        return (
            f"{_ranks(never)} of {self._size} did not come within {self._limit:g} s. Is each one started, and can it reach "
            f"rank 0? {self._refusal}"
        ).rstrip()

    def _silent(self, now: float) -> str | None:
        for number, rank in self._ranks.items():
            if not rank.has_left and now - rank.heard > self._limit:
                return self._say_silent(number)
        return None

    def _say_silent(self, number: int) -> str:
        return (
            f"Rank {number} has been silent for {self._limit:g} s, {describe(self._ranks[number].status)}. Its process is "
            "stopped, or its machine cannot be reached."
        )

    def _parted(self, now: float) -> str | None:
        """Look for two ranks that wait for each other in different places: no time brings them together."""
        still = {n: r for n, r in self._ranks.items() if not r.has_left and now - r.since > _STILL_SECONDS}
        for came in self._gathers.values():
            here = {n: r for n, r in still.items() if n in came and r.status.get("kind") == "gather"}
            for number, rank in here.items():
                for other, away in still.items():
                    if other not in came and self._is_elsewhere(rank, other, away):
                        return (
                            f"Rank {number} and rank {other} wait for each other in different places, and would do so for ever. "
                            f"Rank {number}: {describe(rank.status)}. Rank {other}: {describe(away.status)}."
                        )
        return None

    def _is_elsewhere(self, rank: _Rank, other: int, away: _Rank) -> bool:
        """Tell whether `away`, rank `other`, waits for `rank` in another gather, or in a step after this one."""
        if away.status.get("kind") == "gather":
            return any(other in came for came in self._gathers.values())
        is_ahead = away.status.get("kind") == "step" and away.status["step"] >= rank.status["step"]
        return is_ahead and rank.status.get("has_data", True)  # that step may end with the end of the data

    def _left(self, now: float) -> str | None:
        """Look for a rank that waits for one that has left."""
        gone = [n for n, r in self._ranks.items() if r.has_left and now - r.since > 2 * _STILL_SECONDS]
        for number, rank in self._ranks.items():
            waits = rank.status.get("kind") in ("step", "variables", "gather")
            if gone and waits and not rank.has_left and now - rank.heard < _STILL_SECONDS:
                return f"Rank {gone[0]} has left, and rank {number} waits for it, {describe(rank.status)}."
        return None

    def _behind(self, now: float) -> str | None:
        """Look for a rank that the others have been waiting for longer than the limit."""
        present = {number: rank for number, rank in self._ranks.items() if not rank.has_left}
        waiting = {
            n: r for n, r in present.items() if r.status.get("kind") in ("step", "variables", "gather")
        }
        if not any(now - rank.since > self._limit for rank in waiting.values()):
            return None
        furthest = max((r.status.get("kind") == "gather", r.status.get("step", 0)) for r in waiting.values())
        behind = {
            n: r
            for n, r in present.items()
            if n not in waiting or (r.status["kind"] == "gather", r.status.get("step", 0)) != furthest
        }
        if any(rank.status.get("kind") == "excused" for rank in behind.values()):
            return None
        if any(now - rank.since < _STILL_SECONDS for rank in present.values()):
            return None  # something moves
        if not behind:
            step = furthest[1] + 1
            return (
                f"No rank has finished step {step} within {self._limit:g} s. Either data does not come, or the step takes "
                "longer than the time limit: set a longer one."
            )
        number, rank = min(behind.items(), key=lambda pair: pair[1].status.get("step", 0))
        if now - rank.heard > _SILENT_SHARE * self._limit:
            return self._say_silent(number)
        other = next(n for n in waiting if n not in behind)
        return (
            f"Rank {number} has kept others waiting for {self._limit:g} s, {describe(rank.status)}. Rank {other}: "
            f"{describe(waiting[other].status)}."
        )

    def _fail(self, text: str) -> None:
        if self._failure is None:
            self._failure = text
            self._broadcast({"type": "failed", "text": text})

    def _broadcast(self, message: dict[str, Any]) -> None:
        line = pack(message)
        for connection in list(self._numbers):
            self._send(connection, line)

    def _send(self, connection: socket.socket, line: bytes) -> None:
        try:
            connection.sendall(line)
        except OSError:  # it is gone, or reads nothing: after a part of a line nothing more may follow
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _ranks(numbers: list[int]) -> str:
    return f"Rank {numbers[0]}" if len(numbers) == 1 else f"Ranks {', '.join(map(str, numbers))}"
