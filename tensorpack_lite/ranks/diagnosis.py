"""Rules by which the hub detects, from the status of all ranks, that training cannot continue."""

from __future__ import annotations

import time
from typing import Any, Collection, Iterable

_MANY_RANKS = 256
_SILENT_SHARE = 0.5  # of the time limit: a rank that keeps others waiting then counts as silent, not as slow


def interval_seconds(size: int) -> float:
    """Return the time between two status messages of a rank among `size` ranks."""
    return 1.0 if size > _MANY_RANKS else 0.25


def still_seconds(size: int) -> float:
    """Return for how long a rank's status must have been the same: then the rank has not moved, rather than not reported yet."""
    return 4 * interval_seconds(size)


def describe(status: dict[str, Any]) -> str:
    """Return where a rank was last seen, in words."""
    machine = f" on {status['host']}" if "host" in status else ""
    return f"last seen{machine} after step {status.get('step', 0)}, {status.get('where', 'at its start')}"


def describe_loss(error: OSError) -> str:
    """Return a sentence about the error with which a connection ended. A process that is killed may cause it, too."""
    return f" The connection ended with '{error.strerror}'; the network may have closed it."


def describe_silence(status: dict[str, Any], limit: float) -> str:
    """Return what is wrong with a rank that has sent nothing for `limit` seconds."""
    return f"has been silent for {limit:g} s, {describe(status)}. Its process is stopped, or its machine cannot be reached."


class RankState:
    """
    Status of one rank, as far as the hub knows.

    Args:
        number: the number of the rank.

    Attributes:
        status: its last status message; see the argument `where` of `RankChannel`. It may have the name of the rank's machine, `host`.
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
    ranks: Iterable[RankState], gathers: Iterable[Collection[int]], limit: float, now: float, still: float
) -> str | None:
    """
    Return the reason why training cannot continue as a sentence, or None.

    The time that this takes grows in proportion to the number of ranks.

    Args:
        ranks: all ranks that have connected.
        gathers: for each incomplete gather, the numbers of the ranks that have given their value. A rank is in one at most.
        limit: the time limit in seconds.
        now: the time, on the monotonic clock.
        still: see `still_seconds`.
    """
    ranks, gathers = list(ranks), list(gathers)
    present = [rank for rank in ranks if not rank.has_left]
    silent = next((rank for rank in present if now - rank.heard > limit), None)
    if silent is not None:
        return f"Rank {silent.number} {describe_silence(silent.status, limit)}"
    left = [rank for rank in ranks if rank.has_left and now - rank.since > 2 * still]
    return (
        _find_waiting_for(left, present, now - still)
        or _find_deadlock([rank for rank in present if now - rank.since > still], gathers)
        or _find_straggler(present, limit, now, still)
    )


def _find_waiting_for(left: list[RankState], present: list[RankState], since: float) -> str | None:
    """Look for a rank that waits for one that has left."""
    for rank in present if left else []:
        if rank.is_waiting and rank.heard > since:
            return f"Rank {left[0].number} has left, and rank {rank.number} waits for it, {describe(rank.status)}."
    return None


def _find_deadlock(still: list[RankState], gathers: list[Collection[int]]) -> str | None:
    """Look for two ranks that wait for each other in different places, among those that have not moved."""
    joined = {number for numbers in gathers for number in numbers}
    in_gather = {rank.number for rank in still if rank.kind == "gather" and rank.number in joined}
    for numbers in gathers:
        inside = [rank for rank in still if rank.number in in_gather and rank.number in numbers]
        outside = [rank for rank in still if rank.number not in numbers] if inside else []
        pair = _find_pair(inside, outside, in_gather)
        if pair is not None:
            rank, peer = pair
            return (
                f"Rank {rank.number} and rank {peer.number} wait for each other in different places, which is a deadlock. "
                f"Rank {rank.number}: {describe(rank.status)}. Rank {peer.number}: {describe(peer.status)}."
            )
    return None


def _find_pair(
    inside: list[RankState], outside: list[RankState], in_gather: set[int]
) -> tuple[RankState, RankState] | None:
    """Return a rank inside a gather, and one that waits for it in another gather or in a later step."""
    # the step of a rank whose data has ended may end with the end of the data
    earliest = min((r for r in inside if r.status.get("has_data", True)), key=lambda r: r.step, default=None)
    for peer in outside:
        if peer.number in in_gather:
            return inside[0], peer
        if earliest is not None and peer.kind == "step" and peer.step >= earliest.step:
            return earliest, peer
    return None


def _find_straggler(present: list[RankState], limit: float, now: float, still: float) -> str | None:
    """Look for a rank that others have been waiting for longer than the limit."""
    waiting = [rank for rank in present if rank.is_waiting]
    if not any(now - rank.since > limit for rank in waiting):
        return None
    furthest = max(map(_position, waiting))
    ahead = [rank for rank in waiting if _position(rank) == furthest]
    behind = [rank for rank in present if not rank.is_waiting or _position(rank) != furthest]
    if any(rank.kind == "excused" for rank in behind):
        return None
    if any(now - rank.since < still for rank in present):
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
