"""Handling of SIGTERM, SIGUSR1 and Ctrl-C in a training with several ranks, which end after the same step."""

from __future__ import annotations

from typing import Callable

from ...loop.signals.end_signals import EndSignals
from ...loop.state import TrainLoop
from ...ranks.channel import RankChannel


class RankEndSignals(EndSignals):
    """
    Context manager that handles SIGTERM, SIGUSR1 and Ctrl-C on one of several ranks, which all end after the same step.

    A signal on any rank is sent to the chief, which names the last step. Each rank raises Preempted in the
    first `check` after that step.

    Args:
        loop: the loop.
        within: seconds after which the process ends, wherever the main thread is.
        channel: the connection to the other ranks.
        saves: returns whether the training can save a checkpoint after Ctrl-C.
    """

    wakes = False  # the last step needs its data

    def __init__(
        self, loop: TrainLoop, within: float, channel: RankChannel, saves: Callable[[], bool]
    ) -> None:
        super().__init__(lambda: loop.has_stepped, within, saves)
        self._loop, self._channel = loop, channel

    def request(self, number: int) -> None:
        """Ask the chief for the last step. Any thread may call it."""
        self._limit(number)
        if self.received is None:
            self.received = number
            self._channel.request_end(number)
            self._requested.set()

    def check(self) -> None:
        """Raise Preempted after the last step, or RankError if training cannot continue."""
        if self.number is None and self._channel.has_reached_end(self._loop.global_step):
            super().request(self._channel.signal or 0)
        super().check()
