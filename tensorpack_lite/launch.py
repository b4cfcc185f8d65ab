"""
Launcher of the ranks of a training on this machine: `python -m tensorpack_lite.launch -n K script.py ...`.

Each rank runs the script in a separate Python process and session, with `TF_CONFIG` set for CollectiveTrainer and
`HOROVOD_...` for HorovodTrainer. All ranks get a new secret, with which they authenticate each other unless the user has set
one. `--isolate` puts them into a private network. The launcher prefixes each line of output with the number of its rank.

When a rank fails, the launcher ends all ranks, and exits with the code of the rank that failed first, whose error is its
last output. With `--restarts`, it starts all ranks again first. Ctrl-C, SIGTERM and SIGUSR1 are forwarded to all ranks. After
SIGTERM and SIGUSR1, the ranks have `--grace` seconds to save and end. No rank outlives the launcher, however the launcher ends.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import IO, Deque, Sequence

from .ranks.cluster import free_ports
from .ranks.exit_code import FOLLOWED
from .ranks.loopback import enter_private_network
from .ranks.rendezvous import RendezvousServer
from .utils.concurrency import enable_death_signal
from .utils.secret import JOB_SECRET_VARIABLE, make_secret
from .utils.streams import standard_streams

_HOST = "127.0.0.1"
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 6.0  # for ranks that notice by themselves that another one failed
_END_SECONDS = 3.0  # between SIGTERM and SIGKILL, for ranks that have nothing to save
_LAST_LINES = 30
_PREEMPTED = 143  # exit code of a rank that has saved and ended after a signal
_FAILED = re.compile(r"Training failed at global_step=(\d+): (.*)")
# the latter in a quiet log
_PROGRESS = re.compile(r"(?:Model saved to .*model-|\] Epoch \d+ of .*, global_step )(\d+)")

# Used unless the user has set them.
_HOROVOD_DEFAULTS = {
    "HOROVOD_CONTROLLER": "gloo",
    "HOROVOD_CPU_OPERATIONS": "gloo",
    "HOROVOD_GLOO_IFACE": "lo0" if sys.platform == "darwin" else "lo",
}


def main(argv: Sequence[str] | None = None) -> int:
    """
    Start ranks and wait for them.

    Args:
        argv: command line arguments. Default: those of this process.

    Returns:
        The exit code: that of the first rank that failed (128 + the signal for a rank that was killed), 130 after Ctrl-C, 143
        after SIGTERM or if a rank ends with 143, else 0.

    Note: `--isolate` also moves the calling process into the private network, permanently.
    """
    with standard_streams():
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tensorpack_lite.launch", description="Start the ranks of a training on this machine."
    )
    options = _parse(parser, argv)
    if options.isolate:
        try:
            enter_private_network()
        except OSError as error:
            parser.error(
                f"--isolate: this kernel or container does not allow a private network ({error}). Allow unprivileged user "
                "namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), give the "
                "container the capability SYS_ADMIN, or omit --isolate."
            )
        sys.stderr.write(
            "launch: the ranks run in a private network. No other process can reach them, and they cannot reach anything "
            "outside.\n"
        )
    if options.log_dir:
        os.makedirs(options.log_dir, exist_ok=True)
    command = [sys.executable, "-u", options.script, *options.args]
    launch = _Launch(command, options.size, options.log_dir, options.grace)
    return launch.run(options.restarts)


def _parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    parser.add_argument("-n", type=int, required=True, metavar="K", dest="size", help="number of ranks")
    parser.add_argument("--log-dir", metavar="D", help="also write the output of each rank to D/rank-<number>.log")
    parser.add_argument(
        "--isolate",
        action="store_true",
        help="run the ranks in a private network that is cut off from all others (Linux only)",
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds that the ranks have to save and end after Ctrl-C, SIGTERM or SIGUSR1 (default: 30)",
    )
    parser.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="when a rank fails, start all ranks again, up to N times, unless the same error occurs twice at the same step",
    )
    parser.add_argument("script", help="a Python file")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    options = parser.parse_args(argv)
    if options.size < 1:
        parser.error(f"-n: expected at least 1 rank, got {options.size}")
    if options.grace < 0 or options.restarts < 0:
        parser.error(f"expected --grace and --restarts >= 0, got {options.grace:g} and {options.restarts}")
    if not os.path.isfile(options.script):
        parser.error(f"the file {options.script} does not exist")
    return options


class _Launch:
    """All ranks of one training."""

    def __init__(self, command: Sequence[str], size: int, log_dir: str | None, grace: float) -> None:
        self._signal = 0
        self._output_lock = threading.Lock()
        self._command, self._size, self._log_dir, self._grace = command, size, log_dir, grace
        self._ranks: list[_Process] = []
        self._failures: list[tuple[int, str, int]] = []  # results of _describe
        self._saved_step = 0

    def run(self, num_restarts: int) -> int:
        """Start the ranks, wait for them, start them again if they fail, and return the exit code."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
        before = {number: signal.signal(number, self._handle_signal) for number in numbers}
        try:
            for number in itertools.count(1):
                code = self._run_once()
                has_succeeded = len(self._failures) < number  # or was preempted
                if has_succeeded or self._signal or number > num_restarts:
                    break
                if self._failures[-1] in self._failures[:-1]:
                    self._show("the same error has occurred twice at the same step, so the ranks are not started again")
                    return code
                self._show(f"restart {number} of {num_restarts}, from the last checkpoint")
            return 128 + self._signal if self._signal and code != _PREEMPTED else code
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run_once(self) -> int:
        """Start the ranks, wait for them, and return the exit code. A failure is added to the list."""
        self._ranks = []
        rendezvous = RendezvousServer(self._size, _HOST)
        try:
            secret, ports = make_secret(), free_ports(self._size + 1, _HOST)
            for rank in range(self._size):
                if self._signal:
                    break
                environment = {
                    **_HOROVOD_DEFAULTS,
                    **os.environ,
                    **_environment(rank, self._size, ports, rendezvous.port),
                    JOB_SECRET_VARIABLE: secret,
                    "TENSORPACK_RANKS_RESTART": str(len(self._failures)),
                    "PYTHONUNBUFFERED": "1",
                }
                path = os.path.join(self._log_dir, f"rank-{rank}.log") if self._log_dir else None
                mode = "a" if self._failures else "w"
                self._ranks.append(_Process(rank, self._command, environment, path, mode, self._output_lock))
            return self._watch()
        finally:
            self._kill_all()
            rendezvous.stop()

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signal:  # the second signal kills at once
            for rank in self._ranks:
                rank.send(signal.SIGKILL)
        self._signal = number

    def _watch(self) -> int:
        """Wait until all ranks have ended, one has failed, or a signal arrives."""
        while any(rank.code() is None for rank in self._ranks):
            number = self._signal
            if number:
                end = self._end_all if number == signal.SIGINT else self._let_save
                end(number)
                self._show(f"ended by {signal.Signals(number).name}")
                return _PREEMPTED if self._is_preempted() else 128 + number
            if any(rank.code() for rank in self._ranks):
                break
            time.sleep(_POLL_SECONDS)
        return self._stop_after_failure() if any(rank.code() for rank in self._ranks) else 0

    def _is_preempted(self) -> bool:
        return any(rank.code() == _PREEMPTED for rank in self._ranks)

    def _stop_after_failure(self) -> int:
        if not self._is_preempted():
            self._wait_for_ends(_PATIENCE_SECONDS)
        if self._is_preempted():  # other ranks may have failed because of that
            self._let_save(signal.SIGTERM)
            self._show(f"a rank has ended with exit code {_PREEMPTED}, after a signal")
            return _PREEMPTED
        failed = [rank for rank in self._ranks if rank.code()]
        self._end_all(signal.SIGTERM)
        first = min(failed, key=lambda rank: (rank.code() == FOLLOWED, rank.ended_at))
        code = first.code() or 1
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        self._failures.append(self._describe(first, code))
        self._show(f"rank {first.number} failed first, {how}. Its last lines on stderr:")
        sys.stderr.writelines(line + "\n" for line in first.last_lines)
        sys.stderr.flush()
        return code if code > 0 else 128 - code

    def _describe(self, first: _Process, code: int) -> tuple[int, str, int]:
        """
        Return the exit code of a rank, its error, and the step.

        Numbers in the text are omitted, because those of processes differ. The step is that of the error if a rank has
        logged it, else that of the last checkpoint.
        """
        logged = [rank.failed for rank in (first, *self._ranks) if rank.failed is not None]
        last_line = first.last_lines[-1] if first.last_lines and code > 0 else ""
        text = last_line if first.failed is None else first.failed[1]
        self._saved_step = max(self._saved_step, *(rank.saved_step for rank in self._ranks))
        step = logged[0][0] if logged else self._saved_step
        return code, re.sub(r"\d+", "#", text), step

    def _wait_for_ends(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while any(rank.code() is None for rank in self._ranks) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _let_save(self, number: int) -> None:
        """Send a signal once to each rank, but not to its workers, and wait. Then kill all that still run."""
        for rank in self._ranks:
            rank.send_to_main(number)
        self._wait_for_ends(self._grace)
        self._kill_all()

    def _end_all(self, number: int) -> None:
        """Send a signal to all ranks, then SIGTERM, then SIGKILL. After Ctrl-C, they have the time that they need to save."""
        for number_to_send in (number, signal.SIGTERM, signal.SIGKILL):
            for rank in self._ranks:
                if rank.code() is None:
                    rank.send(number_to_send)
                    rank.send(signal.SIGCONT)  # a stopped process receives no other signal
            self._wait_for_ends(self._grace if number_to_send == signal.SIGINT else _END_SECONDS)
        self._kill_all()

    def _kill_all(self) -> None:
        for rank in self._ranks:
            rank.kill()

    def _show(self, text: str) -> None:
        with self._output_lock:
            sys.stdout.flush()
            sys.stderr.write(f"launch: {text}\n")


class _Process:
    """Process of one rank, and the threads that show its output."""

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        environment: dict[str, str],
        path: str | None,
        mode: str,
        output_lock: threading.Lock,
    ) -> None:
        self.number = number
        self.ended_at = 0.0
        self.failed: tuple[int, str] | None = None
        self.saved_step = 0
        self.last_lines: Deque[str] = collections.deque(maxlen=_LAST_LINES)
        self._output_lock = output_lock
        self._log = open(path, mode, encoding="utf-8") if path else None  # noqa: SIM115 (closed by kill)
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
        """Return the exit code; None while the process runs."""
        code = self._process.poll()
        if code is not None and not self.ended_at:
            self.ended_at = time.monotonic()
        return code

    def send(self, number: int) -> None:
        """Send a signal to all processes of the rank's session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # all have ended
            os.killpg(self._process.pid, number)

    def send_to_main(self, number: int) -> None:
        """Send a signal to the rank only. It ends the processes that it has started."""
        if self.code() is None:
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)  # a stopped process receives no other signal

    def kill(self) -> None:
        """Kill all processes of the rank's session, and show the rest of the output."""
        self.send(signal.SIGKILL)
        self._process.wait()
        for thread in self._threads:
            thread.join(1.0)
        if self._log is not None:
            self._log.close()
            self._log = None

    def _copy(self, stream: IO[bytes], to: IO[str]) -> None:
        """Show a stream line by line; a carriage return also ends a line."""
        unfinished = b""
        while True:
            data = os.read(stream.fileno(), 1 << 16)
            *lines, unfinished = (unfinished + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            for line in lines + ([unfinished] if not data and unfinished else []):
                self._put(line.decode("utf-8", errors="replace"), to)
            if not data:
                stream.close()
                return

    def _put(self, line: str, to: IO[str]) -> None:
        """Show a line, and store what the library logs about checkpoints and the error that ends training."""
        with self._output_lock:
            if to is sys.stderr:
                self.last_lines.append(line)
            failed, saved = _FAILED.search(line), _PROGRESS.search(line)
            if failed is not None:
                self.failed = int(failed.group(1)), failed.group(2)
            if saved is not None:
                self.saved_step = int(saved.group(1))
            to.write(f"[{self.number}] {line}\n")
            to.flush()
            if self._log is not None:
                self._log.write(line + "\n")
                self._log.flush()


def _environment(rank: int, size: int, ports: Sequence[int], rendezvous_port: int) -> dict[str, str]:
    """Return the environment variables for a rank. The last port is for the ranks' channel."""
    cluster = {"worker": [f"{_HOST}:{port}" for port in ports[:-1]]}
    return {
        "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}}),
        "TENSORPACK_RANKS_ADDRESS": f"{_HOST}:{ports[-1]}",
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(size),
        "HOROVOD_LOCAL_RANK": str(rank),
        "HOROVOD_LOCAL_SIZE": str(size),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_HOSTNAME": _HOST,
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": _HOST,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(rendezvous_port),
    }


def _die_with(launcher: int) -> None:
    """In the new process: ask to be killed when the launcher dies, and exit if it has just died."""
    enable_death_signal(_warn=False)
    if os.getppid() != launcher:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
