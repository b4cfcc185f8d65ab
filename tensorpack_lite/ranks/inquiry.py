"""A question of the hub to all ranks: where are you, and for whom do you wait?"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Iterable

from .diagnosis import RankState, describe

__all__ = ["ANSWER_SECONDS", "MAX_CHARACTERS", "Inquiry"]

ANSWER_SECONDS = 4.0
"""How long the hub waits for the answers of the ranks."""

MAX_CHARACTERS = 20_000
"""Length of the longest answer that counts; the rest is cut off."""


class Inquiry:
    """
    The answers that the hub is waiting for.

    Args:
        ranks: all ranks that have connected.
        now: the time, on the monotonic clock.
        futures: receive the answers in the end.
        failure: a sentence that ends training after the answers; None if training continues.
    """

    def __init__(
        self, ranks: Iterable[RankState], now: float, futures: list[Future[Any]], failure: str | None
    ) -> None:
        self._ranks = sorted(ranks, key=lambda rank: rank.number)
        self._deadline = now + ANSWER_SECONDS
        self._futures, self.failure = futures, failure
        self._answers: dict[int, str] = {}

    def add(self, number: int, text: str) -> None:
        """Store the answer of a rank."""
        self._answers.setdefault(number, text[:MAX_CHARACTERS])

    def is_over(self, now: float) -> bool:
        """Return whether every rank that is present has answered, or the time is over."""
        missing = [r for r in self._ranks if not r.has_left and r.number not in self._answers]
        return not missing or now > self._deadline

    def answers(self) -> dict[int, str]:
        """Return a text for each rank; of a rank that has not answered, what the hub knows."""
        return {
            rank.number: self._answers.get(rank.number)
            or f"{'It has left' if rank.has_left else 'It does not answer'}, {describe(rank.status)}."
            for rank in self._ranks
        }

    def finish(self) -> None:
        """Give the answers to those that asked."""
        for future in self._futures:
            future.set_result(self.answers())
