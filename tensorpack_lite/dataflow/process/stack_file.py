"""The Python stacks of a process, written by itself when another process asks for them."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
import weakref
from multiprocessing.reduction import DupFd
from typing import Any, Callable

from ...utils.process_state import catches_signal
from .memory import open_unnamed

__all__ = ["NAME", "SIGNAL", "StackFile", "ask_for_stacks"]

SIGNAL = getattr(signal, "SIGUSR2", None)
NAME = "tensorpack_lite-stacks"
_HEADER_BYTES = 512
_SECONDS = 1.0
_POLL_SECONDS = 0.02


class StackFile:
    """
    A file in memory into which a process writes the stacks of its threads when it receives SIGUSR2.

    `faulthandler` writes them from the handler of the signal, in C, so it works while a thread holds the interpreter's
    lock. It does not work while the process is stopped or in an uninterruptible wait. The object can be pickled while a
    process is started.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self) -> None:
        self._set_handle(open_unnamed(NAME))

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return _attach, (DupFd(self._handle),)

    def _set_handle(self, handle: int) -> None:
        self._handle = handle
        weakref.finalize(self, os.close, handle).atexit = False

    def register(self) -> None:
        """Write the stacks of this process to the file at each SIGUSR2. Keep the object while the process can receive it."""
        if SIGNAL is not None and hasattr(faulthandler, "register"):
            os.write(self._handle, b" " * _HEADER_BYTES)
            faulthandler.register(SIGNAL, self._handle, all_threads=True)

    def unregister(self) -> None:
        """Undo `register`, unless a handler of Python has been installed since."""
        if SIGNAL is not None and signal.getsignal(SIGNAL) == signal.SIG_DFL:
            faulthandler.unregister(SIGNAL)

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
            The text that `faulthandler` writes; empty if the process does not answer within a second.
        """
        if os.fstat(self._handle).st_size == 0:
            return ""
        os.ftruncate(self._handle, _HEADER_BYTES)
        os.lseek(self._handle, _HEADER_BYTES, os.SEEK_SET)
        return ask_for_stacks(pid, self._handle)


def ask_for_stacks(pid: int, handle: int) -> str:
    """
    Return the stacks that a process appends to a file at SIGUSR2; empty if it does not answer within a second.

    Args:
        pid: the process. Without a handler, it gets no signal.
        handle: descriptor of its StackFile.
    """
    begin = size = os.fstat(handle).st_size
    if SIGNAL is None or not catches_signal(pid, SIGNAL):
        return ""
    os.kill(pid, SIGNAL)
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        before, size = size, os.fstat(handle).st_size
        if size == before > begin:
            break
    return os.pread(handle, size - begin, begin).decode(errors="replace")


def _attach(handle: Any) -> StackFile:
    file = StackFile.__new__(StackFile)
    file._set_handle(handle.detach())
    return file
