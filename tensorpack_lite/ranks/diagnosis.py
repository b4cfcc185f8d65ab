"""Rules by which the hub detects, from the status of all ranks, that training cannot continue."""

from __future__ import annotations

import itertools
import time
from typing import Any, Collection, Iterable

__all__ = ["INTERVAL_SECONDS", "STILL_SECONDS", "RankState", "describe", "describe_silence", "find_failure"]

INTERVAL_SECONDS = 0.25
"""Time between two status messages of a rank."""

STILL_SECONDS = 4 * INTERVAL_SECONDS
"""A rank whose status has been the same for this long has not moved, rather than not reported yet."""

_SILENT_SHARE = 0.5  # of the time limit: a rank that keeps others waiting then counts as silent, not as slow


def describe(status: dict[str, Any]) -> str:
    """Return where a rank was last seen, in words."""
    return f"last seen after step {status.get('step', 0)}, {status.get('where', 'at its start')}"


def describe_silence(status: dict[str, Any], limit: float) -> str:
    """Return what is wrong with a rank that has sent nothing for `limit` seconds."""
    return f"has been silent for {limit:g} s, {describe(status)}. Its process is stopped, or its machine cannot be reached."


class RankState:
    """
    Status of one rank, as far as the hub knows.

    Args:
        number: the number of the rank.

    Attributes:
        status: its last status message; see the argument `where` of `RankChannel`.
        heard: when the rank last sent anything, on the monotonic clock.
        since: when the rank last moved: its kind of work or its step changed, or it started a gather.
        has_left: whether it has said goodbye or is lost.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.heard = self.since = time.monotonic()
        self.status: dict[str, Any] = {}
        self.has_left = False

    def update(self, status: dict[str, Any]) -> None:
        """Store a new status."""
        before = self.kind, self.step
        self.status = status
        if (self.kind, self.step) != before:
            self.since = time.monotonic()

    @property
    def kind(self) -> str:
        """Kind of work: "step", "variables", "gather", "excused" or "busy"."""
        return str(self.status.get("kind", ""))

    @property
    def step(self) -> int:
        """Number of steps done."""
        return int(self.status.get("step", 0))

    @property
    def is_waiting(self) -> bool:
        """Whether the rank waits for other ranks."""
        return self.kind in ("step", "variables", "gather")


def find_failure(
    ranks: Iterable[RankState], gathers: Iterable[Collection[int]], limit: float, now: float
) -> str | None:
    """
    Return the reason why training cannot continue as a sentence, or None.

    Args:
        ranks: all ranks that have connected.
        gathers: for each incomplete gather, the numbers of the ranks that have given their value.
        limit: the time limit in seconds.
        now: the time, on the monotonic clock.
    """
    ranks, gathers = list(ranks), list(gathers)
    present = [rank for rank in ranks if not rank.has_left]
    silent = [rank for rank in present if now - rank.heard > limit]
    if silent:
        return f"Rank {silent[0].number} {describe_silence(silent[0].status, limit)}"
    left = [rank for rank in ranks if rank.has_left and now - rank.since > 2 * STILL_SECONDS]
    return (
        _find_waiting_for(left, present, now)
        or _find_deadlock(present, gathers, now)
        or _find_straggler(present, limit, now)
    )


def _find_waiting_for(left: list[RankState], present: list[RankState], now: float) -> str | None:
    """Look for a rank that waits for one that has left."""
    for rank in present if left else []:
        if rank.is_waiting and now - rank.heard < STILL_SECONDS:
            return f"Rank {left[0].number} has left, and rank {rank.number} waits for it, {describe(rank.status)}."
    return None


def _find_deadlock(present: list[RankState], gathers: list[Collection[int]], now: float) -> str | None:
    """Look for two ranks that wait for each other in different places."""
    still = [rank for rank in present if now - rank.since > STILL_SECONDS]
    for numbers in gathers:
        inside = [rank for rank in still if rank.number in numbers and rank.kind == "gather"]
        outside = [rank for rank in still if rank.number not in numbers]
        for rank, other in itertools.product(inside, outside):
            if _cannot_meet(rank, other, gathers):
                return (
                    f"Rank {rank.number} and rank {other.number} wait for each other in different places, which is a deadlock. "
                    f"Rank {rank.number}: {describe(rank.status)}. Rank {other.number}: {describe(other.status)}."
                )
    return None


def _cannot_meet(rank: RankState, other: RankState, gathers: list[Collection[int]]) -> bool:
    """Return whether `other` waits for `rank`, which is in a gather, in another gather or in a later step."""
    if other.kind == "gather":
        return any(other.number in numbers for numbers in gathers)
    is_ahead = other.kind == "step" and other.step >= rank.step
    return is_ahead and rank.status.get("has_data", True)  # that step may end with the end of the data


def _find_straggler(present: list[RankState], limit: float, now: float) -> str | None:
    """Look for a rank that others have been waiting for longer than the limit."""
    waiting = [rank for rank in present if rank.is_waiting]
    if not any(now - rank.since > limit for rank in waiting):
        return None
    furthest = max(_position(rank) for rank in waiting)
    ahead = [rank for rank in waiting if _position(rank) == furthest]
    behind = [rank for rank in present if rank not in ahead]
    if any(rank.kind == "excused" for rank in behind):
        return None
    if any(now - rank.since < STILL_SECONDS for rank in present):
        return None  # some rank has just moved
    if not behind:
        return (
            f"No rank has finished step {ahead[0].step + 1} within {limit:g} s. Either data does not arrive, or the step "
            "takes longer than the time limit. If it does, set a longer one."
        )
    slowest = min(behind, key=lambda rank: rank.step)
    if now - slowest.heard > _SILENT_SHARE * limit:
        return f"Rank {slowest.number} {describe_silence(slowest.status, limit)}"
    return (
        f"Rank {slowest.number} has kept others waiting for {limit:g} s, {describe(slowest.status)}. "
        f"Rank {ahead[0].number}: {describe(ahead[0].status)}."
    )


def _position(rank: RankState) -> tuple[bool, int]:
    """Return how far a waiting rank is: gathers come after the steps."""
    return rank.kind == "gather", rank.step
