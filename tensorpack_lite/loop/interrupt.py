"""Ctrl-C while the main thread waits inside TensorFlow."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any, Callable

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.concurrency import is_main_thread
from ..utils.frames import frame_of_thread

__all__ = ["InterruptWatch", "interrupted"]

_PATIENCE_SECONDS = 0.5


class InterruptWatch:
    """
    Context manager that lets Ctrl-C end a run of the session that waits for data.

    Python runs the handler of a signal in the main thread, between two instructions. While the main thread waits inside
    TensorFlow for data that does not come, no handler runs. So another thread learns of SIGINT through
    `signal.set_wakeup_fd`. If the main thread then stays at the same instruction for half a second, the thread makes the
    run fail, and Python calls the handler: its own, which raises KeyboardInterrupt, or the user's.

    TensorFlow loses what a handler raises while TensorFlow makes the error of the run. So the handler is called through
    this object, which waits in that case until the error has left the context.

    Signals are passed on to the wakeup file descriptor that was set before. Outside of the main thread, or where SIGINT
    has no handler in Python, the context does nothing.

    Args:
        interrupt: called in the other thread at the first Ctrl-C; makes the run fail without closing the session.
        close: called in the other thread if the main thread still does not move at the next Ctrl-C.
    """

    def __init__(self, interrupt: Callable[[], None], close: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._close = close
        self._handler: Any = None
        self._is_deferred = False
        self._left = threading.Event()

    def __enter__(self) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if not is_main_thread() or not callable(handler):
            return
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)  # set_wakeup_fd asks for it
        self._thread = threading.Thread(target=self._watch, name="InterruptWatch", daemon=True)
        self._previous_fd = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._thread.start()
        self._handler = handler
        signal.signal(signal.SIGINT, self._handle)

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if self._handler is None:
            return
        if signal.getsignal(signal.SIGINT) == self._handle:  # otherwise a callback has set another handler
            signal.signal(signal.SIGINT, self._handler)
        signal.set_wakeup_fd(self._previous_fd)
        self._left.set()
        self._sender.close()
        self._thread.join()
        self._receiver.close()
        raises_again = isinstance(error, KeyboardInterrupt) and self._handler is signal.default_int_handler
        if self._is_deferred and not raises_again:
            self._handler(signal.SIGINT, sys._getframe())

    def _handle(self, number: int, frame: Any) -> None:
        if _makes_error(frame):
            self._is_deferred = True
        else:
            self._handler(number, frame)

    def _watch(self) -> None:
        actions = [self._close, self._interrupt]
        while True:
            numbers = self._receiver.recv(4096)
            if not numbers:
                return
            self._pass_on(numbers)
            if signal.SIGINT not in numbers or not actions or not self._main_thread_stays():
                continue
            actions.pop()()
            if actions and self._main_thread_stays():
                logger.warning(
                    "Ctrl-C: TensorFlow waits for something that cannot be interrupted. Press Ctrl-C again to close the session."
                )

    def _pass_on(self, numbers: bytes) -> None:
        if self._previous_fd != -1:
            with suppress(BlockingIOError):  # its buffer is full: Python drops signals then, too
                os.write(self._previous_fd, numbers)

    def _main_thread_stays(self) -> bool:
        """Wait, and tell whether the main thread has been at the same instruction all the time."""
        frame, instruction = _place_of_main_thread()
        if self._left.wait(_PATIENCE_SECONDS):
            return False
        now, instruction_now = _place_of_main_thread()
        return frame is now and instruction == instruction_now


def _makes_error(frame: Any) -> bool:
    """Tell whether a frame is the constructor of one of TensorFlow's errors."""
    return frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), tf.errors.OpError)


def _place_of_main_thread() -> tuple[Any, int]:
    frame = frame_of_thread(threading.main_thread().ident or 0)
    return frame, -1 if frame is None else frame.f_lasti


def interrupted(who: str) -> KeyboardInterrupt:
    """Return the error of a run that an InterruptWatch made fail, for a SIGINT handler that does not raise one itself."""
    return KeyboardInterrupt(f"{who}: Ctrl-C came while a run waited for data.")
