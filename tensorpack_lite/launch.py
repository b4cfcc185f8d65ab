"""
Start the ranks of a training on this machine: `python -m tensorpack_lite.launch -n K script.py ...`.

Each rank runs the script with Python, in a session of its own, with `TF_CONFIG` set for CollectiveTrainer, and `HOROVOD_...` for
HorovodTrainer; Horovod's ranks find each other here. All get a new secret, by which they authenticate each other unless the user has set one. `--isolate` puts them into a private network. What ranks write is shown line by line behind
their number. When one fails all are ended, and the error of the first one that failed is shown last; its exit code is the launcher's. Ctrl-C and SIGTERM go to all ranks. However the launcher ends, no rank
outlives it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any, Deque, Sequence

from .utils.cluster import free_ports
from .utils.concurrency import enable_death_signal
from .utils.loopback import enter_private_network
from .utils.rendezvous import RendezvousServer
from .utils.secret import JOB_SECRET_VARIABLE, make_secret

__all__ = ["main"]

_HOST = "127.0.0.1"
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 6.0  # for ranks that find out themselves that another one failed
_GRACE_SECONDS = 3.0  # between asking and killing
_LAST_LINES = 30
_BECAUSE_OF_ANOTHER = "RankError: "

# What a user may set otherwise.
_HOROVOD_DEFAULTS = {
    "HOROVOD_CONTROLLER": "gloo",
    "HOROVOD_CPU_OPERATIONS": "gloo",
    "HOROVOD_GLOO_IFACE": "lo0" if sys.platform == "darwin" else "lo",
}


def main(argv: Sequence[str] | None = None) -> int:
    """
    Start ranks, and wait for them.

    Args:
        argv: the arguments; None means those of this process.

    Returns:
        The exit code: that of the first rank that failed (128 + the signal for a rank that was killed), 130 after Ctrl-C, 143 after
        SIGTERM, else 0.

    Note: `--isolate` moves the calling process, too, into the private network, for good.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tensorpack_lite.launch", description="Start the ranks of a training on this machine."
    )
    parser.add_argument("-n", type=int, required=True, metavar="K", dest="size", help="how many ranks")
    parser.add_argument(
        "--log-dir", metavar="D", help="also write what each rank writes to D/rank-<number>.log"
    )
    parser.add_argument(
        "--isolate",
        action="store_true",
        help="run the ranks in a private network: nobody else reaches them, and they reach nothing outside (Linux only)",
    )
    parser.add_argument("script", help="a Python file")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(argv)
    if options.size < 1:
        parser.error(f"-n is {options.size}, wanted at least 1 rank")
    if not os.path.isfile(options.script):
        parser.error(f"there is no file {options.script}")
    if options.isolate:
        _isolate(parser)
    if options.log_dir:
        os.makedirs(options.log_dir, exist_ok=True)
    command = [sys.executable, "-u", options.script, *options.args]
    return _Launch(command, options.size, options.log_dir).run()


def _isolate(parser: argparse.ArgumentParser) -> None:
    try:
        enter_private_network()
    except OSError as error:
        parser.error(
            f"--isolate: this kernel or container does not allow a private network ({error}). Allow unprivileged user "
            "namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), give the container the "
            "capability SYS_ADMIN, or leave out --isolate."
        )
    sys.stderr.write(
        "launch: the ranks run in a private network. Nobody else reaches them, and they reach nothing outside.\n"
    )


class _Launch:
    """All ranks of one training."""

    def __init__(self, command: Sequence[str], size: int, log_dir: str | None) -> None:
        self._signal = 0
        self._showing = threading.Lock()
        self._command, self._size, self._log_dir = command, size, log_dir
        self._secret = make_secret()
        self._ranks: list[_Rank] = []

    def run(self) -> int:
        """Start, wait, end."""
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        rendezvous = RendezvousServer(self._size, _HOST)
        try:
            ports = free_ports(self._size + 1, _HOST)
            for rank in range(self._size):
                if self._signal == 0:
                    more = {
                        **_environment(rank, self._size, ports),
                        **_horovod(rank, self._size, rendezvous.port),
                    }
                    self._ranks.append(self._start(rank, more))
            return self._watch()
        finally:
            for rank_ in self._ranks:
                rank_.kill()
            rendezvous.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: Any) -> None:
        if self._signal:  # a second time: no more patience
            for rank in self._ranks:
                rank.send(signal.SIGKILL)
        self._signal = number

    def _start(self, rank: int, more: dict[str, str]) -> _Rank:
        environment = {
            **_HOROVOD_DEFAULTS,
            **os.environ,
            **more,
            JOB_SECRET_VARIABLE: self._secret,
            "PYTHONUNBUFFERED": "1",
        }
        path = os.path.join(self._log_dir, f"rank-{rank}.log") if self._log_dir else None
        return _Rank(rank, self._command, environment, path, self._showing)

    def _watch(self) -> int:
        while any(rank.code() is None for rank in self._ranks):
            if self._signal:
                return self._stop_after_signal()
            if any(rank.code() for rank in self._ranks):
                break
            time.sleep(_POLL_SECONDS)
        if any(rank.code() for rank in self._ranks):
            return self._stop_after_failure()
        for rank in self._ranks:
            rank.kill()
        return 0

    def _stop_after_signal(self) -> int:
        number = self._signal
        self._end_all(number)
        self._show(f"ended by {signal.Signals(number).name}")
        return 128 + number

    def _stop_after_failure(self) -> int:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while any(rank.code() is None for rank in self._ranks) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        failed = [rank for rank in self._ranks if rank.code()]
        self._end_all(signal.SIGTERM)
        first = min(failed, key=lambda rank: (rank.has_followed_another(), rank.ended_at))
        self._show(
            f"rank {first.number} failed first, {_in_words(first.code())}. The last it wrote to stderr:"
        )
        for line in first.last_lines:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
        code = first.code() or 1
        return code if code > 0 else 128 - code

    def _end_all(self, number: int) -> None:
        """Pass a signal on; then ask, then kill."""
        for each in (number, signal.SIGTERM, signal.SIGKILL):
            for rank in self._ranks:
                if rank.code() is None:
                    rank.send(each)
                    rank.send(signal.SIGCONT)  # one that is stopped gets no other signal
            deadline = time.monotonic() + _GRACE_SECONDS
            while any(rank.code() is None for rank in self._ranks) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        for rank in self._ranks:
            rank.kill()

    def _show(self, text: str) -> None:
        with self._showing:
            sys.stdout.flush()
            sys.stderr.write(f"launch: {text}\n")


class _Rank:
    """One process, and the threads that show what it writes."""

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        environment: dict[str, str],
        path: str | None,
        showing: Any,
    ) -> None:
        self.number = number
        self.ended_at = 0.0
        self.last_lines: Deque[str] = collections.deque(maxlen=_LAST_LINES)
        self._showing = showing
        self._log = open(path, "w", encoding="utf-8") if path else None  # noqa: SIM115 (closed by kill)
        launcher = os.getpid()
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: _die_with(launcher),
        )
        self._threads = [
            threading.Thread(target=self._copy, args=pair, daemon=True)
            for pair in ((self._process.stdout, sys.stdout), (self._process.stderr, sys.stderr))
        ]
        for thread in self._threads:
            thread.start()

    def code(self) -> int | None:
        """Its exit code; None as long as it runs."""
        code = self._process.poll()
        if code is not None and not self.ended_at:
            self.ended_at = time.monotonic()
        return code

    def send(self, number: int) -> None:
        """Send a signal to it and all that it started in its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left
            os.killpg(self._process.pid, number)

    def has_followed_another(self) -> bool:
        """Whether its last words are that another rank failed."""
        return bool(self.last_lines) and any(
            _BECAUSE_OF_ANOTHER in line for line in list(self.last_lines)[-3:]
        )

    def kill(self) -> None:
        """End all that is left of it, and show the rest of what it wrote."""
        self.send(signal.SIGKILL)
        self._process.wait()
        for thread in self._threads:
            thread.join(1.0)
        if self._log is not None:
            self._log.close()
            self._log = None

    def _copy(self, stream: IO[bytes], to: Any) -> None:
        """Show a stream line by line; a carriage return ends a line, too."""
        rest = b""
        while True:
            data = os.read(stream.fileno(), 1 << 16)
            *lines, rest = (rest + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            for line in lines + ([rest] if not data and rest else []):
                self._put(line.decode("utf-8", errors="replace"), to)
            if not data:
                stream.close()
                return

    def _put(self, line: str, to: Any) -> None:
        with self._showing:
            if to is sys.stderr:
                self.last_lines.append(line)
            to.write(f"[{self.number}] {line}\n")
            to.flush()
            if self._log is not None:
                self._log.write(line + "\n")
                self._log.flush()


def _environment(rank: int, size: int, ports: Sequence[int]) -> dict[str, str]:
    """What tells a rank who it is; the last of the ports is the ranks' own."""
    cluster = {"worker": [f"{_HOST}:{port}" for port in ports[:-1]]}
    return {
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}),
        "TENSORPACK_RANKS_ADDRESS": f"{_HOST}:{ports[-1]}",
    }


def _horovod(rank: int, size: int, port: int) -> dict[str, str]:
    """The same for Horovod over Gloo; its ranks find each other at the port."""
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": str(rank),
        "HOROVOD_LOCAL_SIZE": str(size),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_HOSTNAME": _HOST,
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": _HOST,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
    }


def _die_with(launcher: int) -> None:
    """In the new process: be killed when the launcher dies, also when it just did."""
    enable_death_signal(_warn=False)
    if os.getppid() != launcher:
        os._exit(1)


def _in_words(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"with exit code {code}"


if __name__ == "__main__":
    sys.exit(main())
