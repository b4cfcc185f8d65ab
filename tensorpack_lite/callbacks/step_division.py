"""Division of the time of training steps into waiting for data, running the graph, and the rest."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import numpy as np

from ..loop.session import RunTimes

__all__ = ["Division", "Steps"]

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
    The times of consecutive steps. Some may be skipped; they count as if they were like those before them.

    Args:
        is_overlapping: whether a run waits for the data of a later one while it computes, as with StagingInput.
    """

    def __init__(self, is_overlapping: bool = False) -> None:
        self._is_overlapping = is_overlapping
        self._totals: list[np.ndarray] = []
        self._waits: list[np.ndarray] = []
        self._run = self._total = 0.0  # of all steps, in nanoseconds
        self._is_waiting_known = True
        self._last_run = 0.0  # mean of the steps that were added last
        self._end = 0  # of the last step

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return sum(map(len, self._totals))

    @property
    def seconds(self) -> float:
        """Their time."""
        return self._total / 1e9

    def set_end(self, end: int) -> None:
        """Set the end of the step before the first one that is added."""
        self._end = end

    def skip(self, num: int, end: int) -> float:
        """
        Add steps that were not measured, as copies of those that were added last, scaled to the time that all of them took.

        Args:
            num: number of steps.
            end: when the last one ended, in nanoseconds.

        Returns:
            The mean time of a step divided by that of the steps that were added last. 1 if there are none of either;
            then the steps are left out.
        """
        nanoseconds, self._end = end - self._end, end
        if not num or not self._totals or not len(self._totals[-1]):
            return 1.0
        totals, waits = np.resize(self._totals[-1], num), np.resize(self._waits[-1], num)
        scale = nanoseconds / 1e9 / float(totals.sum())
        self._totals.append(totals * scale)
        self._waits.append(waits * scale)
        self._run += self._last_run * num * scale
        self._total += nanoseconds
        return scale

    def add(
        self,
        step_ends: Sequence[int],
        runs: RunTimes,
        waits: np.ndarray | None,
    ) -> None:
        """
        Add the next steps.

        Args:
            step_ends: the end of each step, in nanoseconds of `time.perf_counter_ns`. The first step begins at `set_end`,
                or when the last step that was added ended.
            runs: the runs of the session since the last call.
            waits: how long each run waited, in nanoseconds; None if unknown. Steps with NaN are left out.
        """
        if not step_ends:
            return
        ends = np.array(step_ends, np.int64)
        begins = np.concatenate([[self._end], ends[:-1]])
        self._end = int(ends[-1])
        index = np.searchsorted(ends, runs.started)  # of the step of each run
        inside = (runs.started >= begins[0]) & (runs.ended <= ends[-1])

        def in_steps(values: np.ndarray) -> np.ndarray:
            return np.bincount(index[inside], weights=values[inside], minlength=len(ends))

        self._is_waiting_known &= waits is not None
        waited = in_steps(np.zeros(len(index)) if waits is None else waits)
        known = ~np.isnan(waited)
        totals = (ends - begins).astype(float)
        self._totals.append(totals[known] / 1e9)
        self._waits.append(waited[known] / 1e9)
        run = float(in_steps((runs.ended - runs.started).astype(float))[known].sum())
        self._run += run
        self._last_run = run / max(1, known.sum())
        self._total += float(totals[known].sum())

    def division(self, is_fed: bool = False) -> Division:
        """
        Return the parts of the mean step. At least one step was added.

        Args:
            is_fed: whether runs wait for data before the session runs, as with FeedInput.
        """
        num = self.num_steps * 1e9
        run, outside = self._run / num, (self._total - self._run) / num
        lost = float(np.concatenate(self._lost()).sum()) * 1e9 / num if self._is_waiting_known else None
        if is_fed:
            outside -= lost or 0.0
        else:
            run -= lost or 0.0
        return Division(lost, run, outside)

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
