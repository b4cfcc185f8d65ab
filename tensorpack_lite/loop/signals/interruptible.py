"""Handling of signals while the main thread waits inside TensorFlow."""

from __future__ import annotations

import os
import signal
import socket
import threading
import weakref
from contextlib import suppress
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Callable

from ...compat import tfv1 as tf
from ...utils import logger
from ...utils.concurrency import is_main_thread
from ...utils.frames import frame_of_thread
from .end_signals import EndSignals

_PATIENCE_SECONDS = 0.5


class Interruptible:
    """
    Context manager that lets Ctrl-C, and the signals of `end_signals`, end a run of the session that waits for data.

    Python calls signal handlers in the main thread, between two instructions. While the main thread waits inside
    TensorFlow for missing data, no handler is called. So another thread is notified of SIGINT by
    `signal.set_wakeup_fd`. If the main thread then stays at the same instruction for half a second, that
    thread makes the run fail, and Python calls the handler: its own, which raises KeyboardInterrupt, or the
    user's.

    TensorFlow discards an exception that a handler raises while TensorFlow constructs the error of the run.
    In that case this object delays the handler until the error has left the context.

    Signals are also written to the wakeup file descriptor that was set before. Outside the main thread, or if
    no signal has a Python handler, the context manager does nothing.

    Args:
        interrupt: called in the other thread at the first Ctrl-C; makes the run fail without closing the session.
        close: called in the other thread at the next Ctrl-C if the main thread still does not move.
        end_signals: its signals are handled too; None if the training has none.
        wake: called in the other thread after a signal of `end_signals`, again and again, while the main thread does not
            move; makes the run fail if it waits for data.
    """

    def __init__(
        self,
        interrupt: Callable[[], None],
        close: Callable[[], None],
        end_signals: EndSignals | None = None,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self._interrupt = interrupt
        self._close = close
        self._end_signals = end_signals
        self._wake = wake
        self._handlers: dict[int, Any] = {}
        self._deferred: list[int] = []
        self._left = threading.Event()
        self._waking: threading.Thread | None = None

    def __enter__(self) -> None:
        if not is_main_thread():
            return
        numbers = {signal.SIGINT, *(self._end_signals.signals if self._end_signals is not None else ())}
        handlers = {number: signal.getsignal(number) for number in numbers}
        self._handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
        if not self._handlers:
            return
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)  # set_wakeup_fd requires it
        self._thread = threading.Thread(target=self._watch, name="InterruptWatch", daemon=True)
        self._previous_fd = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=partial(_leave_to_parent, weakref.ref(self)))
        self._thread.start()
        for number in self._handlers:
            signal.signal(number, self._handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._handlers:
            return
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._handle:  # otherwise a callback has set another handler
                signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        self._left.set()
        self._sender.shutdown(socket.SHUT_WR)  # not only close: forks of this process have copies
        self._sender.close()
        self._thread.join()
        if self._waking is not None:
            self._waking.join()
        self._receiver.close()
        for number in self._deferred:
            handler = self._handlers[number]
            if not (isinstance(error, KeyboardInterrupt) and handler is signal.default_int_handler):
                handler(number, frame_of_thread(threading.get_ident()))

    @property
    def is_active(self) -> bool:
        """Whether the context has not been left."""
        return not self._left.is_set()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Call the handler of `EndSignals` or of the user; where an error would do damage, only when the context is left."""
        if _makes_error(frame):
            self._deferred.append(number)
        else:
            self._handlers[number](number, frame)

    def _watch(self) -> None:
        actions = [self._close, self._interrupt]
        while True:
            numbers = self._receiver.recv(4096)
            if not numbers:
                return
            self._pass_on(numbers)
            if self._end_signals is not None and self._end_signals.notice(numbers) and self._waking is None:
                self._waking = threading.Thread(target=self._wake_until_left, name="wake", daemon=True)
                self._waking.start()
            if self._end_signals is not None and self._end_signals.is_first_ctrl_c(numbers):
                continue
            if signal.SIGINT not in numbers or not actions or not self._main_thread_stays():
                continue
            actions.pop()()
            if actions and self._main_thread_stays():
                logger.warning(
                    "Ctrl-C: TensorFlow is in a call that cannot be interrupted. Press Ctrl-C again to close the session."
                )

    def _wake_until_left(self) -> None:
        while not self._left.is_set():
            if self._main_thread_stays() and self._wake is not None:
                self._wake()

    def _pass_on(self, numbers: bytes) -> None:
        if self._previous_fd != -1:
            with suppress(BlockingIOError):  # its buffer is full; Python drops signals in that case too
                os.write(self._previous_fd, numbers)

    def _main_thread_stays(self) -> bool:
        """Wait, and return whether the main thread has stayed at the same instruction."""
        frame, instruction = _place_of_main_thread()
        if self._left.wait(_PATIENCE_SECONDS):
            return False
        now, instruction_now = _place_of_main_thread()
        return frame is now and instruction == instruction_now


def _makes_error(frame: FrameType | None) -> bool:
    """Return whether a frame is the constructor of one of TensorFlow's errors."""
    if frame is None:
        return False
    return frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), tf.errors.OpError)


def _leave_to_parent(reference: Callable[[], Interruptible | None]) -> None:
    """In a fork: do not report its signals to the parent."""
    watch = reference()
    if watch is not None and watch.is_active:
        signal.set_wakeup_fd(-1)


def _place_of_main_thread() -> tuple[FrameType | None, int]:
    frame = frame_of_thread(threading.main_thread().ident or 0)
    return frame, -1 if frame is None else frame.f_lasti


def error_of_interrupted_run(who: str) -> KeyboardInterrupt:
    """Return the error for a run that Interruptible made fail, in case the SIGINT handler does not raise one."""
    return KeyboardInterrupt(f"{who}: a signal interrupted a run that waited for data.")
