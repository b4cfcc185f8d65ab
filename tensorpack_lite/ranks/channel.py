"""Connection of one rank to the hub, which reports the status of the rank and receives the failures of others."""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, Callable, Sequence

from ..utils import logger
from ..utils.streams import write_to_stderr
from .alone import AloneChannel
from .authentication import Credentials
from .connecting import RankError, connect, listen, round_trip
from .diagnosis import describe, describe_loss, describe_silence, interval_seconds
from .exit_code import FOLLOWED
from .gathers import ALL, CHIEF, EACH
from .hub import ANSWER_SECONDS, MAX_CHARACTERS, RankHub
from .loopback import is_loopback
from .messages import MAX_LINE_VARIABLE, Lines, max_line_bytes, pack, parse
from .open_files import allow_open_files

_GRACE_SECONDS = 3.0  # in which the main thread may notice a failure and end by itself


class RankChannel(AloneChannel):
    """
    One rank's end of the channel between ranks; the channel of rank 0 also runs the hub.

    Engines that move gradients wait without limit for a rank that is gone. Over the channel each rank reports
    its status several times a second, so that all ranks can end with one sentence that names the missing one.

    Args:
        rank: number of this process.
        size: number of processes.
        address: host and port of the hub. Rank 0 listens on the loopback interface if the host belongs to it, else on all interfaces.
        time_limit: seconds that a rank may be silent, or keep the others waiting.
        where: returns the status of this process: a dict of `step` (steps done), `where` (in words) and
            `kind`: "step" while it waits for a step, "variables" while it waits for the variables of the
            chief, "excused" while the others have to wait for it, else "busy". Called in a thread, several
            times a second.
        on_hang: called with the failure when the main thread does not end by itself. Default: write the
            failure to stderr and end the process with code 128.
        credentials: the conditions for a peer to join. Default: the secret of the environment, see
            `secret.find_job_secret`.
        other_ports: more ports of the hub; it takes the first one that is free.

    Attributes:
        failure: a sentence that says why training cannot continue, or None.
        signal: the signal that asks this training to end, on any rank; None if there is none.
        last_step: the step after which all ranks end because of it; None if the chief has not named one.
        is_closed: whether this rank has left.

    Raises:
        RankError: the port of the hub is taken or cannot be reached, or a rank did not connect within the time limit.
        OSError: the file with the secret cannot be read, or others can read it; rank 0 may open too few files.
        ValueError: the secret is too short.

    Note: messages are JSON, at most `$TENSORPACK_RANKS_MAX_LINE_MB` (default 64) MB long, and checked before
    use. Ranks and hub authenticate each other first; the messages that follow are neither signed nor
    encrypted.
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
        other_ports: Sequence[int] = (),
    ) -> None:
        self.rank, self.size, self.time_limit = rank, size, time_limit
        self.failure: str | None = None
        self.signal: int | None = None
        self.last_step: int | None = None
        self._all_know_end = False
        self.where = where or (lambda: {"kind": "busy", "step": 0, "where": "at its start"})
        self._describe: Callable[[], str] | None = None
        self._on_hang = on_hang or _end_process
        credentials = credentials or Credentials.from_environment()
        self._max_line = max_line_bytes()
        self._chief: dict[str, Any] = {}
        self._gathering: str | None = None
        self._num_expected: int | None = size  # values in the answer
        self._gathered: dict[str, list[Any] | None] = {}
        self.is_closed = False
        self._ending = threading.Event()  # the main thread ends by itself
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._hub: RankHub | None = None
        host, ports = address[0], (address[1], *other_ports)
        if rank == 0:
            allow_open_files(size)
            listener = listen(host, ports, size)
            # It need not know its own name.
            host, ports = host if is_loopback(host) else "127.0.0.1", (listener.getsockname()[1],)
            self._hub = RankHub(listener, size, time_limit, credentials)
            self._hub.start()
        self._socket = connect(rank, size, host, ports, time_limit, credentials.key)
        self._heard = time.monotonic()
        self._threads = [
            threading.Thread(target=target, name=f"RankChannel-{target.__name__}", daemon=True)
            for target in (self._read_from_hub, self._report_status)
        ]
        for thread in self._threads:
            thread.start()
        try:
            self.all_gather("hello", rank)
        except BaseException:  # Ctrl-C too: no thread or connection stays open
            self.close()
            raise

    @property
    def ends(self) -> tuple[Any, Any]:
        """The socket addresses of the connection to the hub: the end of this rank, and that of the hub."""
        return self._socket.getsockname(), self._socket.getpeername()

    def round_trip(self) -> float:
        """Return the time in seconds that a packet to the hub and its answer take; see `connecting.round_trip`."""
        return round_trip(self._socket)

    def all_gather(self, name: str, value: object) -> list[Any]:
        """
        Exchange values: every rank sends a value and receives the values of all ranks. All ranks must call
        it, in the same order.

        Args:
            name: what the values are, for the error message when a rank does not call it.
            value: anything that JSON can represent.

        Returns:
            The values in the order of ranks.

        Raises:
            RankError: training cannot continue.
            TypeError: JSON cannot represent the value.
            ValueError: the value is too long or nested too deeply.
        """
        values: list[Any] = self._gather(name, value, ALL)
        return values

    def gather(self, name: str, value: object) -> list[Any] | None:
        """
        Send a value to the chief: like `all_gather`, but return the values only on rank 0, and None on other ranks.

        Args:
            name: what the values are, for the error message when a rank does not call it.
            value: anything that JSON can represent. Gather a large value in parts of a few MB: while it is
                sent, the rank cannot report its status.

        Raises:
            RankError: training cannot continue.
            TypeError: JSON cannot represent the value.
            ValueError: the value is too long or nested too deeply.
        """
        values: list[Any] | None = self._gather(name, value, CHIEF)
        return values

    def scatter(self, name: str, values: Sequence[object] | None = None) -> Any:
        """
        Receive this rank's value from the chief, which has one for each rank. All ranks must call it, in the same order.

        Args:
            name: what the values are, for the error message when a rank does not call it.
            values: on the chief, a value for each rank, which JSON can represent; ignored on other ranks. They travel in one
                message, so scatter large values in parts of a few MB.

        Returns:
            The value for this rank.

        Raises:
            RankError: training cannot continue.
            TypeError: JSON cannot represent a value.
            ValueError: the values are too long or nested too deeply, or the chief does not have one for each rank.
        """
        if self.rank == 0 and (values is None or len(values) != self.size):
            got = "none" if values is None else str(len(values))
            raise ValueError(
                f"RankChannel.scatter: '{name}' needs a value for each rank (expected {self.size}, got {got})."
            )
        return self._gather(name, values if self.rank == 0 else None, EACH)[0]

    def _gather(self, name: str, value: object, receivers: str) -> Any:
        self.check()
        line = pack({"type": "gather", "name": name, "value": value, "receivers": receivers})
        if len(line) > self._max_line:
            raise ValueError(
                f"RankChannel: the value for '{name}' is too long (expected at most {self._max_line >> 20} MB, got "
                f"{len(line) / 2**20:.1f} MB). Set {MAX_LINE_VARIABLE} higher, the same on all ranks."
            )
        self._gathering = name
        self._num_expected = 1 if receivers == EACH else self.size if receivers == ALL or self.rank == 0 else None
        self._send(line)
        with self._changed:
            self._changed.wait_for(lambda: name in self._gathered or self.failure is not None)
            self._gathering = None
            if name in self._gathered:
                return self._gathered.pop(name)
        self.check()
        raise RankError(f"{name}: no answer.")  # pragma: no cover (an answer or a failure always arrives)

    def check(self) -> None:
        """
        Raise the failure, if any.

        Raises:
            RankError: training cannot continue.
        """
        if self.failure is not None:
            self._ending.set()
            raise RankError(self.failure)

    # The end after a signal ------------------------------------------------------------------------------------------
    def request_end(self, number: int) -> None:
        """Tell all ranks that this one has received a signal. It takes no lock, so a signal handler may call it."""
        self.signal = self.signal or number  # the next status message contains it

    def has_reached_end(self, step: int) -> bool:
        """
        Return whether training ends after this step because of a signal. Call it between two steps.

        On the chief, the first call after a signal names the next step as the last one, and waits until all
        ranks know it. None of them can finish that step before, because its gradients need those of the
        chief.

        Args:
            step: the number of steps that this rank has done.

        Raises:
            RankError: training cannot continue.
        """
        if self.rank == 0 and self.signal is not None and self.last_step is None and not self.is_closed:
            with self._changed:
                self.last_step = step + 1
                self._changed.wait_for(lambda: self._all_know_end or self.failure is not None)
            self.check()
        return self.last_step is not None and step >= self.last_step

    def wait_for_failure(self, seconds: float) -> str | None:
        """Wait at most `seconds` for a failure. Return it, or None if there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self.failure is not None, seconds)
        return self.failure

    def end_by_itself(self) -> None:
        """Tell that the main thread of this rank is ending, so that a failure of another rank does not end the process."""
        self._ending.set()

    def fail(self, text: str) -> None:
        """Tell all ranks that this one cannot continue. If several ranks fail, the first message counts."""
        self._ending.set()
        self._send(pack({"type": "fail", "text": text}))
        self.wait_for_failure(1.0)

    def describe_with(self, describe: Callable[[], str] | None) -> None:
        """
        Set how this rank answers the question where it is.

        Args:
            describe: returns a paragraph for the log of the chief; called in a separate thread. None: `where` in words.
        """
        self._describe = describe

    def ask_all(self) -> dict[int, str]:
        """
        Ask all ranks where they are; only the chief can.

        Returns:
            A text for each rank by its number; nothing on other ranks, or if the hub does not run.
        """
        if self._hub is None or self.is_closed:
            return {}
        try:
            return self._hub.ask_all().result(ANSWER_SECONDS + 1.0)
        except FutureTimeoutError:  # training ends
            return {}

    def close(self) -> None:
        """Leave. This is not a failure for the other ranks."""
        if self.is_closed:
            return
        self.is_closed = True
        self._ending.set()
        self._send(pack({"type": "bye"}))
        with suppress(OSError):  # the hub has already closed the connection
            self._socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(2.0)
        self._socket.close()
        if self._hub is not None:
            self._hub.join(2.0)

    # The two threads -------------------------------------------------------------------------------------------------
    def _report_status(self) -> None:
        interval = interval_seconds(self.size)
        while not self.is_closed:
            status = self.where()
            if self._gathering is not None:
                status = {**status, "kind": "gather", "where": f"waiting for the others ({self._gathering})"}
            status = {**status, "signal": self.signal, "last_step": self.last_step}
            self._send(pack({"type": "status", "status": status}))
            if self.rank != 0 and time.monotonic() - self._heard > self.time_limit:
                self._lose_chief(describe_silence(self._chief, self.time_limit))
            if self.failure is not None:
                if not self._ending.wait(_GRACE_SECONDS):
                    self._on_hang(self.failure)
                return
            with self._changed:
                self._changed.wait_for(lambda: self.is_closed or self.failure is not None, interval)

    def _read_from_hub(self) -> None:
        lines = Lines(self.size * (self._max_line + 1))  # the hub sends the values of all ranks in one line
        while not self.is_closed and self.failure is None:
            cause = ""
            try:
                data = self._socket.recv(1 << 16)
            except socket.timeout:
                continue
            except OSError as error:
                data, cause = b"", describe_loss(error)
            if not data:
                if not self.is_closed:
                    self._lose_chief(f"died without reporting an error, {describe(self._chief)}.{cause}")
                return
            self._heard = time.monotonic()
            try:
                for line in lines.feed(data):
                    self._receive(parse(line))
            except ValueError as error:
                self._lose_chief(f"sent a message that rank {self.rank} rejects: {error}.")

    def _receive(self, message: dict[str, Any]) -> None:
        if message["type"] == "tick":
            self._chief, self.signal = message["chief"], self.signal or message["signal"]
            if self.rank != 0:
                self.last_step = self._chief.get("last_step")
            with self._changed:
                self._all_know_end = message["all_know_end"]
                self._changed.notify_all()
        elif message["type"] == "gathered":
            values = message["values"]
            if (None if values is None else len(values)) != self._num_expected:
                raise ValueError("it does not have the expected number of values")
            with self._changed:
                self._gathered[message["name"]] = values
                self._changed.notify_all()
        elif message["type"] == "failed":
            self._set_failure(message["text"])
        elif message["type"] == "ask":
            # a description may take seconds, in which this thread could not hear of a failure
            threading.Thread(target=self._answer, name="RankChannel-_answer", daemon=True).start()

    def _answer(self) -> None:
        describe = self._describe
        if self._gathering is not None:
            text = f"It waits for the other ranks ({self._gathering})."
        elif describe is None:
            text = f"It is {self.where()['where']}."
        else:
            try:
                text = describe()
            except Exception as error:  # noqa: BLE001 (the others learn at least that this rank is alive)
                text = f"It cannot describe its place: {type(error).__name__}: {error}"
        self._send(pack({"type": "place", "text": text[:MAX_CHARACTERS]}))

    def _set_failure(self, failure: str) -> None:
        with self._changed:
            self.failure = self.failure or failure
            self._changed.notify_all()

    def _lose_chief(self, reason: str) -> None:
        self._set_failure(f"Rank 0, the chief, {reason}")

    def _send(self, line: bytes) -> None:
        with self._sending, suppress(OSError):  # the reading thread finds out what happened
            try:
                self._socket.sendall(line)
            except socket.timeout:  # a part of the line has been sent, so nothing else may follow
                self._lose_chief(describe_silence(self._chief, self.time_limit))
                self._socket.shutdown(socket.SHUT_WR)


def _end_process(failure: str) -> None:
    """End a process whose main thread waits inside TensorFlow, where it cannot be interrupted."""
    logger.error(failure)
    write_to_stderr(f"tensorpack_lite.ranks.channel.RankError: {failure}\n")
    os._exit(FOLLOWED)
