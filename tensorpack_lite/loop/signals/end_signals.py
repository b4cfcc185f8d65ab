"""Handling of SIGTERM and SIGUSR1, with which a scheduler announces that it will end the process, and of Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from functools import partial
from types import FrameType
from typing import Any, Callable

from ...utils import logger
from ...utils.concurrency import is_main_thread

_CODE = 143  # that of a process which SIGTERM has ended
_CTRL_C_CODE = 130
_ONE_PRESS_SECONDS = 0.2  # wrappers forward SIGINT to a process that the terminal has sent it already
_POLL_SECONDS = 1.0


class Preempted(SystemExit):
    """
    Exception that `train()` raises after SIGTERM or SIGUSR1 has ended a training with `trainer.exact`.

    It is raised after the checkpoint is saved and `after_train` of all callbacks is called. If the script
    does not catch it, Python ends with exit code 143, after which schedulers start the script again.

    Args:
        message: what happened; `str(error)` returns it.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.code = _CODE


class Interrupted(KeyboardInterrupt):
    """
    KeyboardInterrupt of a training with `trainer.exact`, which has saved a checkpoint after Ctrl-C.

    Attributes:
        exit_code: 130, with which a script ends that does not catch it.
    """

    exit_code = _CTRL_C_CODE


class EndSignals:
    """
    Context manager that handles SIGTERM, SIGUSR1 and Ctrl-C in the main thread.

    A signal sets `number`, and `check` then raises Preempted. Before the first step there is nothing to save,
    so the handler itself raises Preempted. A second SIGTERM ends the process at once, as it does by default.
    The handlers also call those that were installed before. If training has ended for another reason, a
    signal during its end raises Preempted at exit.

    If the training has a checkpoint to save, the first Ctrl-C is such a signal, too, but Interrupted leaves this context instead
    of Preempted, and there is no time limit. The second one raises KeyboardInterrupt at once; signals
    within 0.2 seconds are one Ctrl-C. A SIGTERM after Ctrl-C sets the time limit. A handler of the user stays.

    Outside the main thread, the context manager installs nothing; `request` still works.

    Args:
        has_stepped: returns whether there is something to save.
        within: seconds after which the process ends, wherever the main thread is.
        saves: returns whether the training can save a checkpoint after Ctrl-C; None leaves Ctrl-C to Python.

    Attributes:
        signals: those that it handles.
        number: the signal that ends training; None if there is none. Any thread may read it.
        received: the first signal that was received; None if there was none.
        wakes: whether a run that waits for data may be made to fail.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
    wakes = True

    def __init__(
        self,
        has_stepped: Callable[[], bool],
        within: float,
        saves: Callable[[], bool] | None = None,
    ) -> None:
        self.signals: tuple[int, ...] = self.SIGNALS
        self._saves = saves
        self._num_ctrl_c = [0, 0]  # those that the handler and `notice` have seen
        self._last_ctrl_c = [-1.0, -1.0]  # and when
        self._limiting: int | None = None  # the signal that sets the time limit
        self.number: int | None = None
        self.received: int | None = None
        self._has_stepped = has_stepped
        self._within = within
        self._previous: dict[int, Any] = {}
        self._num_seen = 0
        self._requested = threading.Event()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._limit_time, name="EndSignals", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()
        if not is_main_thread():
            name = threading.current_thread().name
            logger.warning(f"SIGTERM is not handled, because train() runs in the thread {name}. Save regularly.")
            return
        os.register_at_fork(after_in_child=partial(_leave_to_parent, weakref.ref(self)))
        if self._saves is not None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.signals = (*self.SIGNALS, signal.SIGINT)
        for number in self.signals:
            self._previous[number] = signal.signal(number, self._handle)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        self.restore_handlers()
        self._left.set()
        self._requested.set()
        self._thread.join()
        if error is None or hides_preempted(error):
            error = None if self.number is None else self.error()
            if isinstance(error, Preempted) and error.code != _CTRL_C_CODE:
                raise error
        if isinstance(error, Preempted) and error.code == _CTRL_C_CODE:
            raise KeyboardInterrupt if self.is_given_up else Interrupted(str(error)) from None

    def restore_handlers(self) -> None:
        """Install the handlers of before."""
        for number, handler in self._previous.items():
            # None: the handler was not installed from Python, and cannot be put back from there
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @property
    def is_active(self) -> bool:
        """Whether the context has not been left."""
        return not self._left.is_set()

    def request(self, number: int) -> None:
        """
        Make `check` raise Preempted from now on. Any thread may call it.

        Args:
            number: the signal.
        """
        self._limit(number)
        # Only once, also because a handler that interrupts another one must not wait for the event's lock.
        if self.number is None:
            self.received = self.received or number
            self.number = number
            self._requested.set()

    def _limit(self, number: int) -> None:
        if number != signal.SIGINT:  # after Ctrl-C there is no limit
            self._limiting = number

    def check(self) -> None:
        """Raise Preempted if a signal was received."""
        if self.number is not None:
            raise self.error()

    def error(self) -> Preempted:
        """Return the Preempted that `check` raises."""
        error = Preempted(f"Training was ended by {_name(self.received)}.")
        error.code = _CTRL_C_CODE if self.received == signal.SIGINT else _CODE
        return error

    @property
    def is_given_up(self) -> bool:
        """Whether a second Ctrl-C ends training without a checkpoint. Any thread may read it."""
        return max(self._num_ctrl_c) > 1

    def is_first_ctrl_c(self, numbers: bytes) -> bool:
        """Return whether Ctrl-C is among signals, and ends training as SIGTERM does."""
        return signal.SIGINT in numbers and self._handles_ctrl_c() and not self.is_given_up

    def _handles_ctrl_c(self) -> bool:
        return signal.SIGINT in self.signals and self._saves is not None and self._saves()

    def notice(self, numbers: bytes) -> bool:
        """
        Handle signals in another thread, while the main thread may wait inside TensorFlow.

        Args:
            numbers: the signals that have arrived since the last call.

        Returns:
            Whether one of them ends training.
        """
        numbers = numbers if self._handles_ctrl_c() else bytes(n for n in numbers if n != signal.SIGINT)
        found = [number for number in numbers if number in self.signals]
        if signal.SIGINT in found:
            self._count_ctrl_c(1)
        for number in found:
            self.request(number)
        self._num_seen += found.count(signal.SIGTERM)
        # The handler of the first one would have removed itself, if the main thread had called it.
        if self._num_seen > 1:
            os._exit(_CODE)
        return bool(found)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        previous = self._previous[number]
        if number == signal.SIGTERM:
            signal.signal(number, signal.SIG_DFL)
        is_ctrl_c = number == signal.SIGINT and self._handles_ctrl_c()
        if is_ctrl_c:
            self._count_ctrl_c(0)
        if number != signal.SIGINT or (is_ctrl_c and not self.is_given_up):
            self.request(number)
        if callable(previous) and not (is_ctrl_c and not self.is_given_up):
            previous(number, frame)
        if not self._has_stepped():
            raise self.error()

    def _count_ctrl_c(self, index: int) -> None:
        now, before = time.monotonic(), self._last_ctrl_c[index]
        if self._num_ctrl_c[index] == 0 or now - before > _ONE_PRESS_SECONDS:
            self._num_ctrl_c[index] += 1
            self._last_ctrl_c[index] = now

    def _limit_time(self) -> None:
        """Log the signal, which a handler must not do, and end the process when the time is over."""
        self._requested.wait()
        if self._left.is_set():
            return
        if self.received == signal.SIGINT:
            logger.warning(
                "Ctrl-C: training saves a checkpoint and ends after the current step or callback. Press Ctrl-C again to end it at once."
            )
            while self._limiting is None:
                if self._left.wait(_POLL_SECONDS):
                    return
        logger.warning(
            f"Received {_name(self._limiting or self.received)}: training ends after the current step or callback, within {self._within:g} s; "
            "a step that waits for data is interrupted where possible."
        )
        if not self._left.wait(self._within):
            # not with the logger, whose lock the main thread may hold
            os.write(
                2,
                f"Training did not end within {self._within:g} s: the process is ended. The latest checkpoint counts.\n".encode(),
            )
            os._exit(_CODE)


def _name(number: int | None) -> str:
    if number == signal.SIGINT:
        return "Ctrl-C"
    return "another process" if number is None else signal.Signals(number).name


def hides_preempted(error: BaseException | None) -> bool:
    """Return whether an extension has replaced the Preempted that a handler raised inside one of its functions."""
    return isinstance(error, SystemError) and isinstance(error.__cause__, Preempted)


def _leave_to_parent(reference: Callable[[], EndSignals | None]) -> None:
    """In a fork: remove the handlers, so that SIGTERM ends it."""
    end_signals = reference()
    if end_signals is not None and end_signals.is_active:
        end_signals.restore_handlers()
