"""
An alarm that writes the Python stacks of all threads to a file while native code holds the interpreter's lock. Linux only.

A timer of the system sends a signal to the thread that waits for the lock, and `faulthandler` handles it in C. The timer
counts the CPU time of that thread, which wakes up every few milliseconds as long as it waits for the lock. So nothing is
written after the process was stopped, when other threads run: `faulthandler` crashes if the stacks change meanwhile
(measured with two busy threads on Python 3.11: at one of the first five signals). Its own timer,
`faulthandler.dump_traceback_later`, exists once per process, and is left to the script.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import struct
import sys
import threading
import time
from typing import Callable

from .process_state import catches_signal

__all__ = ["StackAlarm"]

SIGNAL = getattr(signal, "SIGRTMAX", 0) - 5
_CLOCK_THREAD_CPU = 3  # linux: CLOCK_THREAD_CPUTIME_ID
_TO_THREAD = 4  # linux: SIGEV_SIGNAL | SIGEV_THREAD_ID
_EVENT = struct.Struct("Piii44x")  # `struct sigevent`: value, signal, kind, thread
_TIMES = struct.Struct("4l")  # `struct itimerspec`: interval and time, each in seconds and nanoseconds
_NUM_WAITS = 10


class StackAlarm:
    """
    Create and use it in one thread, which must not end before it is closed. Takes 50 ms, to measure what waiting costs.

    Args:
        path: the stacks are appended to this file; None means stderr.

    Raises:
        OSError: the system has no such timer, the signal has another handler already, or the file cannot be opened.
    """

    def __init__(self, path: str | None) -> None:
        thread = _native_id()
        if thread is None or catches_signal(os.getpid(), SIGNAL):
            raise OSError("this process cannot have such an alarm")
        self._library, self._timer = _find_library(), ctypes.c_void_p()
        self._cpu_share = _cpu_share_of_waiting()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._handle = os.dup(2) if path is None else os.open(path, flags, 0o666)
        event = _EVENT.pack(0, SIGNAL, _TO_THREAD, thread)
        faulthandler.register(SIGNAL, self._handle, all_threads=True)
        if self._library.timer_create(_CLOCK_THREAD_CPU, event, ctypes.byref(self._timer)):
            self._forget_signal()
            raise OSError(ctypes.get_errno(), "timer_create failed")

    def set(self, seconds: float) -> None:
        """Let the alarm ring when this thread has waited for the interpreter's lock for about so long."""
        self._set_timer(max(seconds * self._cpu_share, 1e-6))

    def stop(self) -> bool:
        """
        Stop the alarm until it is set again.

        Returns:
            Whether it has rung.
        """
        return not any(_TIMES.unpack(self._set_timer(0.0)))

    def close(self) -> None:
        """Remove the alarm."""
        self._library.timer_delete(self._timer)
        self._forget_signal()

    def _set_timer(self, seconds: float) -> bytes:
        """Set the timer, or stop it with 0; return the values of before."""
        before = ctypes.create_string_buffer(_TIMES.size)
        times = _TIMES.pack(0, 0, int(seconds), int(seconds % 1 * 1e9))
        self._library.timer_settime(self._timer, 0, times, before)
        return before.raw

    def _forget_signal(self) -> None:
        faulthandler.unregister(SIGNAL)
        os.close(self._handle)


def _cpu_share_of_waiting() -> float:
    """Return the CPU time of a thread that waits for the interpreter's lock, as a fraction of the time that passes."""
    lock, interval = threading.Lock(), sys.getswitchinterval()
    lock.acquire()
    begin, begin_cpu = time.monotonic(), time.thread_time()
    for _ in range(_NUM_WAITS):
        lock.acquire(timeout=interval)
    return (time.thread_time() - begin_cpu) / (time.monotonic() - begin)


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
