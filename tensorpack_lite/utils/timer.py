"""Timers that measure and log durations."""

from __future__ import annotations

import atexit
from contextlib import contextmanager
from time import perf_counter as timer
from typing import Iterator

from . import logger
from .stats import StatCounter

__all__ = ["IterSpeedCounter", "Timer", "timed_operation"]


class Timer:
    """
    A stopwatch that starts when it is created.

    Example:
        >>> watch = Timer()
        >>> watch.pause(); watch.resume()
        >>> watch.seconds() >= 0
        True
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again from zero."""
        self._started: float | None = timer()
        self._before = 0.0

    def pause(self) -> None:
        """
        Pause the timer.

        Raises:
            RuntimeError: the timer is already paused.
        """
        if self._started is None:
            raise RuntimeError("Timer.pause: the timer is already paused. Check is_paused() first.")
        self._before, self._started = self.seconds(), None

    def is_paused(self) -> bool:
        """Return whether the timer is paused."""
        return self._started is None

    def resume(self) -> None:
        """
        Continue after `pause`.

        Raises:
            RuntimeError: the timer is already running.
        """
        if self._started is not None:
            raise RuntimeError("Timer.resume: the timer is already running. Check is_paused() first.")
        self._started = timer()

    def seconds(self) -> float:
        """Return the seconds since the start, without pauses."""
        return self._before + (0.0 if self._started is None else timer() - self._started)


@contextmanager
def timed_operation(msg: str, log_start: bool = False) -> Iterator[None]:
    """
    Log the duration of the body, unless it raises an exception.

    Args:
        msg: name of the operation.
        log_start: also log a line at the start.

    Example:
        >>> with timed_operation("Load the data"):  # doctest: +SKIP
        ...     load()                              # logs: Load the data finished, time:1.2345 sec.
    """
    if log_start:
        logger.info(f"Start {msg} ...")
    start = timer()
    yield
    logger.info(f"{msg} finished, time:{timer() - start:.4f} sec.")


@contextmanager
def total_timer(msg: str) -> Iterator[None]:
    """
    Add the duration of the body to a total, which is logged when the process exits.

    Args:
        msg: the name of the total.
    """
    start = timer()
    yield
    _totals.feed(msg, timer() - start)


def print_total_timer() -> None:
    """Log sum, count and average of the totals of `total_timer`."""
    _totals.log()


class IterSpeedCounter:
    """
    Counter of iterations that logs the speed of a loop.

    Args:
        print_every: number of calls between two log lines.
        name: name of the loop.

    Example:
        >>> counter = IterSpeedCounter(1000)
        >>> for _ in range(100):
        ...     counter()
    """

    def __init__(self, print_every: int, name: str | None = None) -> None:
        self.cnt = 0
        self.print_every = int(print_every)
        self.name = name or "IterSpeed"
        self.reset()

    def reset(self) -> None:
        """Restart the measurement."""
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
    """The totals of `total_timer`. The first one registers an exit handler that logs them."""

    def __init__(self) -> None:
        self._counters: dict[str, StatCounter] = {}

    def feed(self, name: str, seconds: float) -> None:
        if not self._counters:
            atexit.register(self.log)
        self._counters.setdefault(name, StatCounter()).feed(seconds)

    def log(self) -> None:
        for name, counter in self._counters.items():
            logger.info(
                f"Total Time: {name} -> {counter.sum:.2f} sec, {counter.count} times, {counter.average:.3g} sec/time"
            )


_totals = _Totals()
