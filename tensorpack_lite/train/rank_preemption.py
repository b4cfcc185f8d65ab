"""Handling of SIGTERM and SIGUSR1 in a training of several ranks, which all end after the same step."""

from __future__ import annotations

from typing import Callable

from ..loop.preemption import Preemption
from ..ranks.channel import RankChannel

__all__ = ["RankPreemption"]


class RankPreemption(Preemption):
    """
    Context manager that handles SIGTERM and SIGUSR1 on one of several ranks.

    A signal on any rank is sent to the chief, which names the last step. Each rank raises Preempted in the
    first `check` after that step.

    Args:
        has_stepped, within: see `Preemption`.
        channel: the ranks' channel.
        step: returns the number of steps that are done.
    """

    wakes = False  # the last step needs its data

    def __init__(
        self, has_stepped: Callable[[], bool], within: float, channel: RankChannel, step: Callable[[], int]
    ) -> None:
        super().__init__(has_stepped, within)
        self._channel, self._step = channel, step

    def request(self, number: int) -> None:
        """
        Ask the chief for the last step. Any thread may call it.

        Args:
            number: the signal.
        """
        if self.received is None:
            self.received = number
            self._channel.request_end(number)
            self._requested.set()

    def check(self) -> None:
        """
        Raise Preempted after the last step.

        Raises:
            RankError: training cannot continue.
        """
        if self.number is None and self._channel.has_reached_end(self._step()):
            super().request(self._channel.signal or 0)
        super().check()
