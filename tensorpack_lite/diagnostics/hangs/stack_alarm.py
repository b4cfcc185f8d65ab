"""
An alarm that writes the Python stacks of all threads to a file while native code holds the interpreter's lock. Linux only.

A small process counts the seconds since it was last told that Python code runs, except those in which this process is stopped.
When they are too many, it sends a signal, which `faulthandler` handles in C. Threads that run Python code meanwhile would
make `faulthandler` crash (measured with two busy threads on Python 3.11: at one of the first five signals), so a timer of
the system, which also counts while a process is stopped, cannot be used. That of `faulthandler.dump_traceback_later` is
one of these; it stays free for the script.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, Callable

from ...utils.process_state import catches_signal

SIGNAL = getattr(signal, "SIGRTMAX", 0) - 5
_END_SECONDS = 5.0
_COUNTING = """
import ctypes, os, select, signal, sys
send = getattr(ctypes.CDLL(None), "tgkill", lambda pid, thread, number: os.kill(pid, number))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)  # sent to a whole group; this process ends with its parent
pid, thread, number = map(int, sys.argv[1:])
left = 0.0
while True:
    if select.select([0], [], [], 0.5)[0]:
        text = os.read(0, 65536)
        if not text:
            break
        left = float(text.split()[-1])
    elif left > 0:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            is_stopped = file.read().rpartition(")")[2].split()[0] in "Tt"
        left -= 0 if is_stopped else 0.5
        if left <= 0:
            os.write(1, b"x")
            send(pid, thread, number)
"""


class StackAlarm:
    """
    An alarm that rings while native code holds the interpreter's lock. Starts a process of about 10 MB.

    Create and use it in one thread, which must not end before it is closed: it gets the signal, so that no other thread is
    interrupted.

    Args:
        path: the stacks are appended to this file; None means stderr.

    Raises:
        OSError: this is not Linux, the signal has another handler already, or the file cannot be opened.
    """

    def __init__(self, path: str | None) -> None:
        if not sys.platform.startswith("linux") or catches_signal(os.getpid(), SIGNAL):
            raise OSError("this process cannot have such an alarm")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._handle = os.dup(2) if path is None else os.open(path, flags, 0o666)
        faulthandler.register(SIGNAL, self._handle, all_threads=True)
        numbers = os.getpid(), _native_id(), int(SIGNAL)
        command = [sys.executable, "-S", "-E", "-c", _COUNTING, *map(str, numbers)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
        except OSError:
            self._forget_signal()
            raise
        self._stdin, self._stdout = _existing(self._process.stdin), _existing(self._process.stdout)
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)

    def set(self, seconds: float) -> None:
        """Let the alarm ring after these seconds, unless it is stopped or set again before."""
        with suppress(BrokenPipeError, BlockingIOError):  # somebody has ended or stopped the process
            os.write(self._stdin.fileno(), f"{seconds}\n".encode())

    def stop(self) -> bool:
        """
        Stop the alarm until it is set again.

        Returns:
            Whether it has rung.
        """
        self.set(0.0)
        return bool(self._stdout.read(1))

    def close(self) -> None:
        """Remove the alarm, and end its process."""
        self._stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # it is stopped
            self._process.kill()
            self._process.wait()
        self._stdout.close()
        self._forget_signal()

    def _forget_signal(self) -> None:
        faulthandler.unregister(SIGNAL)
        os.close(self._handle)


def _existing(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "bug: Popen made no pipe"
    return pipe


def _native_id() -> int:
    """Return the system's number of the calling thread, or of the process if it is unknown."""
    if sys.version_info >= (3, 8):
        return threading.get_native_id()
    get: Callable[[], int] = getattr(ctypes.CDLL(None), "gettid", os.getpid)
    return get()
