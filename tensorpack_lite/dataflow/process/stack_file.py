"""The Python stacks of a process, written by itself when another process asks for them."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
import weakref
from contextlib import suppress
from multiprocessing.reduction import DupFd
from typing import Any, Callable

from ...utils.process_state import catches_signal, count_running_threads, cpu_seconds, describe_trouble
from .memory import open_unnamed

SIGNAL = getattr(signal, "SIGUSR2", None) if hasattr(signal, "SIGRTMAX") else None  # only Linux has both
_NATIVE_SIGNAL = getattr(signal, "SIGRTMAX", 0) - 6  # while native code holds the interpreter's lock
NAME = "tensorpack_lite-stacks"
_HEADER_BYTES = 512
_SECONDS = 0.5  # for each of the two signals
_STARVED_SECONDS = 4.0  # for the first one if other programs use the cores
_TURN_CPU_SECONDS = 2.0  # of a process, in which its main thread runs the handler unless it is in native code
_POLL_SECONDS = 0.02
_NUM_POLLS = 5  # until SIGUSR2 is sent again
_MARK = b"--- written by Python code ---\n"  # before and after what the handler of SIGUSR2 writes


class StackFile:
    """
    A file in memory into which a process writes the stacks of its threads when another process asks.

    First SIGUSR2 asks; its handler is Python code, because `faulthandler` can crash if the stacks change while it reads them.
    It asks repeatedly, because a signal just before the main thread begins to sleep does not wake it. Only if the main
    thread is in native code, which does not let the handler run, `faulthandler` itself answers another signal, in C
    and without the interpreter's lock. A process that is stopped or in an uninterruptible wait gets no signal,
    because it would handle both later, while its threads run. The object can be pickled while a process is started.

    Known limit: if the main thread is in native code without the lock while others run Python code, asking can crash the process.

    Args:
        handle: descriptor of the file, which the object closes. Default: a new file.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, handle: int | None = None) -> None:
        self._handle = open_unnamed(NAME) if handle is None else handle
        self._close = weakref.finalize(self, os.close, self._handle)
        self._close.atexit = False

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return _attach, (DupFd(self._handle),)

    def register(self) -> None:
        """
        Let this process write its stacks to the file. Keep the object while the process can be asked.

        Call it in the main thread; from another one, only the handler for native code is installed.
        """
        if SIGNAL is not None:
            os.write(self._handle, b" " * _HEADER_BYTES)
            faulthandler.register(_NATIVE_SIGNAL, self._handle, all_threads=True)
            if threading.current_thread() is threading.main_thread():
                signal.signal(SIGNAL, self._write)
                signal.siginterrupt(SIGNAL, False)

    def close(self) -> None:
        """Undo `register`, but leave a handler that has been installed since; close the file."""
        if SIGNAL is not None:
            faulthandler.unregister(_NATIVE_SIGNAL)
            if signal.getsignal(SIGNAL) == self._write:
                signal.signal(SIGNAL, signal.SIG_DFL)
        self._close()

    def _write(self, number: int, frame: object) -> None:
        os.write(self._handle, _MARK)
        faulthandler.dump_traceback(self._handle, all_threads=True)
        os.write(self._handle, _MARK)

    @property
    def note(self) -> str:
        """A short text that the process has left in the file; set it after `register`."""
        return os.pread(self._handle, _HEADER_BYTES, 0).decode(errors="replace").strip()

    @note.setter
    def note(self, text: str) -> None:
        os.pwrite(self._handle, text.encode()[:_HEADER_BYTES].ljust(_HEADER_BYTES), 0)

    def ask(self, pid: int) -> str:
        """
        Return the stacks of a process that has called `register`.

        Args:
            pid: the process.

        Returns:
            The text that `faulthandler` writes; empty if the process does not answer within a second, or four seconds
            if it is busy.
        """
        if os.fstat(self._handle).st_size == 0:
            return ""
        os.ftruncate(self._handle, _HEADER_BYTES)
        os.lseek(self._handle, _HEADER_BYTES, os.SEEK_SET)
        return ask_for_stacks(pid, self._handle)


def ask_for_stacks(pid: int, handle: int) -> str:
    """
    Return the stacks that a process appends to its StackFile; empty if it does not answer, as in `StackFile.ask`.

    Args:
        pid: the process. Without a handler, it gets no signal.
        handle: descriptor of its StackFile.
    """
    if describe_trouble(pid):
        return ""
    cpu_before = cpu_seconds(pid)

    def is_starved() -> bool:
        """Return whether the process could run, but has not had the time for its handler."""
        return count_running_threads(pid) > 0 and cpu_seconds(pid) - cpu_before < _TURN_CPU_SECONDS

    text = _ask(pid, SIGNAL, handle, is_starved)
    if not text and not is_starved():
        text = _ask(pid, _NATIVE_SIGNAL, handle, lambda: False)
    lines = text.decode(errors="replace").splitlines(keepends=True)
    return "".join(line for line in lines if __file__ not in line)  # without the handler


def _ask(pid: int, number: int | None, handle: int, may_take_longer: Callable[[], bool]) -> bytes:
    """Send a signal and return the answer; empty if there is none in time, or if the process does not catch the signal."""
    begin = os.fstat(handle).st_size
    text, start, now, num_polls = b"", time.monotonic(), 0.0, 0
    while now < _SECONDS or (now < _STARVED_SECONDS and may_take_longer()):
        if num_polls == 0 or (number == SIGNAL and num_polls % _NUM_POLLS == 0):
            if number is None or not catches_signal(pid, number):
                return b""
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(pid, number)
        time.sleep(_POLL_SECONDS)
        num_polls += 1
        before, text = text, os.pread(handle, os.fstat(handle).st_size - begin, begin)
        if text.endswith(_MARK) and text.count(_MARK) > 1:
            return text.split(_MARK)[-2]  # the last answer
        if number != SIGNAL and text == before != b"":  # `faulthandler` writes no mark
            return text
        now = time.monotonic() - start
    return b""


def _attach(handle: Any) -> StackFile:
    return StackFile(handle.detach())
