"""
An alarm that writes the Python stacks of all threads to a file unless it is postponed, also while native code holds the
interpreter's lock. Linux only.

A timer of the system sends a signal to the thread that has created the alarm, and `faulthandler` handles it in C. Its own
timer, `faulthandler.dump_traceback_later`, exists once per process, and is left to the script.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import struct
import sys
import threading
from typing import Callable

from .process_state import catches_signal

__all__ = ["StackAlarm"]

SIGNAL = getattr(signal, "SIGRTMAX", 0) - 5
_CLOCK_MONOTONIC = 1
_TO_THREAD = 4  # linux: SIGEV_SIGNAL | SIGEV_THREAD_ID
_EVENT = struct.Struct("Piii44x")  # `struct sigevent`: value, signal, kind, thread
_TIMES = struct.Struct("4l")  # `struct itimerspec`: interval and time, each in seconds and nanoseconds


class StackAlarm:
    """
    Create, postpone and close it in one thread, which must not end before.

    Args:
        path: the stacks are appended to this file; None means stderr.

    Raises:
        OSError: the system has no such timer, the signal has another handler already, or the file cannot be opened.
    """

    def __init__(self, path: str | None) -> None:
        thread = _native_id()
        if thread is None or catches_signal(os.getpid(), SIGNAL):
            raise OSError("this process cannot have such an alarm")
        self._library, self._timer, self._is_set = _find_library(), ctypes.c_void_p(), False
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._handle = os.dup(2) if path is None else os.open(path, flags, 0o666)
        event = _EVENT.pack(0, SIGNAL, _TO_THREAD, thread)
        faulthandler.register(SIGNAL, self._handle, all_threads=True)
        if self._library.timer_create(_CLOCK_MONOTONIC, event, ctypes.byref(self._timer)):
            self._forget_signal()
            raise OSError(ctypes.get_errno(), "timer_create failed")

    def postpone(self, seconds: float) -> bool:
        """
        Let the alarm ring after these seconds, unless it is postponed again.

        Returns:
            Whether it has rung since the last call.
        """
        before = ctypes.create_string_buffer(_TIMES.size)
        times = _TIMES.pack(0, 0, int(seconds), int(seconds % 1 * 1e9))
        self._library.timer_settime(self._timer, 0, times, before)
        was_set, self._is_set = self._is_set, True
        return was_set and not any(_TIMES.unpack(before.raw))

    def close(self) -> None:
        """Stop the alarm."""
        self._library.timer_delete(self._timer)
        self._forget_signal()

    def _forget_signal(self) -> None:
        faulthandler.unregister(SIGNAL)
        os.close(self._handle)


def _find_library() -> ctypes.CDLL:
    """Return the C library that has timers."""
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)


def _native_id() -> int | None:
    """Return the system's number of the calling thread; None if it is unknown."""
    if not sys.platform.startswith("linux"):
        return None
    if sys.version_info >= (3, 8):
        return threading.get_native_id()
    get: Callable[[], int] | None = getattr(ctypes.CDLL(None), "gettid", None)
    return None if get is None else get()
