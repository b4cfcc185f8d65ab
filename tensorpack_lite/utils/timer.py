"""How long things take."""

from __future__ import annotations

import atexit
from contextlib import contextmanager
from time import perf_counter as timer
from typing import Iterator

from . import logger
from .stats import StatCounter

__all__ = ["IterSpeedCounter", "Timer", "print_total_timer", "timed_operation", "total_timer"]


class Timer:
    """
    A stopwatch; it runs from its creation on.

    Example:
        >>> watch = Timer()
        >>> watch.pause(); watch.resume()
        >>> watch.seconds() >= 0
        True

    tensorpack: same; there a second pause or resume is an AssertionError.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again from zero, running."""
        self._started: float | None = timer()
        self._before = 0.0

    def pause(self) -> None:
        """
        Stop counting.

        Raises:
            RuntimeError: it is paused already.
        """
        if self._started is None:
            raise RuntimeError("Timer: pause() of a paused timer. Look at is_paused() first.")
        self._before, self._started = self.seconds(), None

    def is_paused(self) -> bool:
        """Tell whether it is paused."""
        return self._started is None

    def resume(self) -> None:
        """
        Count on.

        Raises:
            RuntimeError: it is running already.
        """
        if self._started is not None:
            raise RuntimeError("Timer: resume() of a running timer. Look at is_paused() first.")
        self._started = timer()

    def seconds(self) -> float:
        """The seconds counted so far, pauses left out."""
        return self._before + (0.0 if self._started is None else timer() - self._started)


@contextmanager
def timed_operation(msg: str, log_start: bool = False) -> Iterator[None]:
    """
    Log how long the body took, when it ends without an exception.

    Args:
        msg: what the body does.
        log_start: also log when it starts.

    Example:
        >>> with timed_operation("Load the data"):  # doctest: +SKIP
        ...     load()                              # logs: Load the data finished, time:1.2345 sec.

    tensorpack: same.
    """
    if log_start:
        logger.info(f"Start {msg} ...")
    start = timer()
    yield
    logger.info(f"{msg} finished, time:{timer() - start:.4f} sec.")


@contextmanager
def total_timer(msg: str) -> Iterator[None]:
    """
    Add the time of the body to a total, which is logged when the process exits.

    Args:
        msg: the name of the total.

    tensorpack: same.
    """
    start = timer()
    yield
    _totals.feed(msg, timer() - start)


def print_total_timer() -> None:
    """Log the totals of `total_timer` so far: sum, count and average."""
    _totals.log()


class IterSpeedCounter:
    """
    Logs the speed of a loop.

    Args:
        print_every: log after every so many calls.
        name: what is counted.

    Example:
        >>> counter = IterSpeedCounter(1000)
        >>> for _ in range(100):
        ...     counter()

    tensorpack: same.
    """

    def __init__(self, print_every: int, name: str | None = None) -> None:
        self.cnt = 0
        self.print_every = int(print_every)
        self.name = name or "IterSpeed"
        self.reset()

    def reset(self) -> None:
        """Start the clock again."""
        self.start = timer()

    def __call__(self) -> None:
        """Count one iteration."""
        if self.cnt == 0:
            self.reset()
        self.cnt += 1
        if self.cnt % self.print_every != 0:
            return
        seconds = timer() - self.start
        logger.info(f"{self.name}: {seconds:.2f} sec, {self.cnt} times, {seconds / self.cnt:.3g} sec/time")


class _Totals:
    """The totals of `total_timer`; asks to be logged at exit once there is one."""

    def __init__(self) -> None:
        self._counters: dict[str, StatCounter] = {}

    def feed(self, name: str, seconds: float) -> None:
        if not self._counters:
            atexit.register(self.log)
        self._counters.setdefault(name, StatCounter()).feed(seconds)

    def log(self) -> None:
        for name, counter in self._counters.items():
            logger.info(
                f"Total Time: {name} -> {counter.sum:.2f} sec, {counter.count} times, "
                f"{counter.average:.3g} sec/time"
            )


_totals = _Totals()
