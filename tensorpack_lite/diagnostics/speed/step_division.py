"""Division of the time of training steps into waiting for data, running the graph, and the rest."""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np

_NUM_BLOCKS = 20  # of consecutive steps, whose mean times are compared
_READY_SHARE = 0.05  # of its time; a step that waits less counts as one whose data was ready
_WAITS = 0.1  # of the time of a step
_MIN_READY = 0.05  # of all steps


class Division(NamedTuple):
    """
    The parts of the mean step, in seconds.

    Attributes:
        waiting: for data; None if unknown.
        run: the runs of the session, without `waiting`.
        outside: the time outside of runs, without `waiting`: callbacks, and the code of the trainer.
    """

    waiting: Optional[float]
    run: float
    outside: float

    @property
    def waits(self) -> bool:
        """Whether a step waits so long that data limits the training."""
        return self.waiting is not None and self.waiting >= _WAITS * self.total

    @property
    def total(self) -> float:
        """Seconds of a step."""
        return sum(part or 0.0 for part in self)


class Steps:
    """
    The times of consecutive steps.

    Args:
        is_overlapping: whether a run waits for the data of a later one while it computes, as with StagingInput.
    """

    def __init__(self, is_overlapping: bool = False) -> None:
        self._is_overlapping = is_overlapping
        self._totals: list[np.ndarray] = []
        self._waits: list[np.ndarray] = []
        self._run = 0.0  # of all steps, in seconds
        self._is_waiting_known = True

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return sum(map(len, self._totals))

    @property
    def seconds(self) -> float:
        """Their time."""
        return float(sum(totals.sum() for totals in self._totals))

    def add(
        self, started: np.ndarray, ended: np.ndarray, numbers: np.ndarray, end: int, waits: np.ndarray | None
    ) -> None:
        """
        Add the next steps. A step lasts from the begin of its first run to that of the next step.

        Args:
            started, ended: of at least one run of the session, in nanoseconds of `time.perf_counter_ns`.
            numbers: the number of the step of each run.
            end: when the last step ended.
            waits: how long each run waited, in nanoseconds; None if unknown.
        """
        first = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
        self._is_waiting_known &= waits is not None
        waited = np.zeros(len(started)) if waits is None else waits
        self._totals.append(np.diff(started[first], append=end) / 1e9)
        self._waits.append(np.add.reduceat(waited, first) / 1e9)
        self._run += float((ended - started).sum()) / 1e9

    def division(self) -> Division:
        """Return the parts of the mean step. At least one step was added."""
        num = self.num_steps
        run, outside = self._run / num, (self.seconds - self._run) / num
        if not self._is_waiting_known:
            return Division(None, run, outside)
        lost = float(np.concatenate(self._lost()).mean())
        return Division(lost, run - lost, outside)

    def _lost(self) -> list[np.ndarray]:
        """Return the time by which waiting made each step longer."""
        ready = self._ready_interval()
        if not self._is_overlapping or ready is None:
            return self._waits
        steps = zip(self._waits, self._totals)
        return [np.clip(np.minimum(wait, total - ready), 0, None) for wait, total in steps]

    def graph_interval(self) -> tuple[float | None, bool]:
        """Return the median time of a step whose data is ready, None if unknown; and whether it was seen, or is a limit."""
        seen = self._ready_interval()
        if seen is not None:
            return seen, True
        if self._is_overlapping or not self._is_waiting_known:
            return None, False
        return float(np.median(np.concatenate(self._totals) - np.concatenate(self._waits))), False

    def _ready_interval(self) -> float | None:
        totals, waits = np.concatenate(self._totals), np.concatenate(self._waits)
        is_ready = waits <= _READY_SHARE * totals
        if not self._is_waiting_known or is_ready.sum() < max(5, _MIN_READY * len(totals)):
            return None
        return float(np.median(totals[is_ready]))

    def quartiles(self) -> tuple[float, float]:
        """Return the first and third quartile of the mean time of a step in 20 blocks of steps."""
        totals = np.concatenate(self._totals)
        means = [block.mean() for block in np.array_split(totals, min(_NUM_BLOCKS, len(totals)))]
        first, third = np.percentile(means, [25, 75])
        return float(first), float(third)
