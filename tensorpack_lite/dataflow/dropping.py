"""
Detection of map functions that drop every datapoint.

In:  the results of a function; None drops a datapoint.
Out: an error, where the consumer would otherwise wait forever because the source is repeated without end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from ..utils import logger
from .failure import function_name
from .repeat import RepeatedData

if TYPE_CHECKING:
    import ctypes

_MIN_DROPPED = 1000  # in a row, because a random function may drop a whole pass of a small source
_WARN_DROPPED = 10_000


class DropCounter:
    """
    Counter of dropped datapoints, in the process that calls a function or collects its results.

    Args:
        who: the stage, for error messages.
        func: the function.
        ds: the DataFlow that the stage reads. The RepeatedData below it counts passes; without one, the counter
            only warns.

    Attributes:
        kept: the caller sets it to True for each datapoint that is not dropped.
    """

    def __init__(self, who: str, func: Callable[..., Any], ds: object) -> None:
        self._who = who
        self._func = func
        self._repeated = _repeated_part(ds)
        self._begun = self._num_passes()
        self._num_dropped = 0
        self._has_kept = False
        self.kept = False

    def drop(self) -> None:
        """Count a dropped datapoint."""
        if self.kept:
            self._has_kept = True
            self.kept, self._num_dropped, self._begun = False, 0, self._num_passes()
        self._num_dropped += 1
        if self._num_dropped == _WARN_DROPPED:
            logger.warning(
                f"{self._who}: {function_name(self._func)} has returned None for {_WARN_DROPPED} datapoints in a row."
            )

    def saw_whole_pass(self) -> bool:
        """Return whether at least a whole pass of the source, and at least 1000 datapoints, were dropped in a row."""
        if self.kept or self._num_dropped < _MIN_DROPPED:
            return False
        return self._num_passes() >= self._begun + 2  # so the pass after `_begun` has ended

    def error(self) -> RuntimeError:
        """Return the error; the caller raises it."""
        return _error(self._who, self._func, self._num_dropped)

    def describe(self) -> str:
        """Return the message of the error if every datapoint so far was dropped, otherwise ""."""
        return "" if self.kept or self._has_kept or not self._num_dropped else str(self.error())

    def _num_passes(self) -> int:
        return 0 if self._repeated is None else self._repeated.num_passes


class SharedDropCounter:
    """
    Counter of dropped datapoints for a function that several worker processes call.

    Args:
        who: the stage, for error messages.
        func: the function.
        counts: array in shared memory: the number of passes that the process with the source has begun, then for each
            worker the number of its results and the number of datapoints that it kept. Each number has a single writer.
        index: number of this worker, from 0.
        max_behind: maximum number of datapoints in transit to one worker.
    """

    def __init__(
        self,
        who: str,
        func: Callable[..., Any],
        counts: ctypes.Array[ctypes.c_longlong],
        index: int,
        max_behind: int,
    ) -> None:
        self._who = who
        self._func = func
        self._counts = counts
        self._mine = 1 + 2 * index
        self._max_behind = max_behind
        self._kept_before = -1
        self._begun = 0
        self._dropped_before = 0
        self._after_pass: list[int] = []  # number of results of each worker when a whole pass had been sent

    def count(self, results: list[Any]) -> None:
        """
        Count results of this worker.

        Raises:
            RuntimeError: the workers have dropped a whole pass of the source, and at least 1000 datapoints in a row.
        """
        counts, num_kept = self._counts, sum(result is not None for result in results)
        counts[self._mine] += len(results)
        counts[self._mine + 1] += num_kept
        if num_kept < len(results):
            self._look(list(counts))

    def _look(self, counts: list[int]) -> None:
        num_passes, num_results, num_kept = counts[0], counts[1::2], sum(counts[2::2])
        if num_kept != self._kept_before:
            self._begun, self._dropped_before = (num_passes, sum(num_results)) if num_kept else (0, 0)
            self._kept_before, self._after_pass = num_kept, []
        num_dropped = sum(num_results) - self._dropped_before
        if not self._after_pass:
            if num_dropped >= _MIN_DROPPED and num_passes >= self._begun + 2:
                self._after_pass = num_results
        elif all(now - then >= self._max_behind for now, then in zip(num_results, self._after_pass)):
            raise _error(self._who, self._func, num_dropped)


def _repeated_part(ds: object) -> RepeatedData | None:
    """Return the RepeatedData at or below a DataFlow, or None."""
    while ds is not None:
        repeated = ds if isinstance(ds, RepeatedData) else getattr(ds, "repeated", None)
        if isinstance(repeated, RepeatedData):
            return repeated
        ds = getattr(ds, "ds", None)
    return None


def _error(who: str, func: Callable[..., Any], num_dropped: int) -> RuntimeError:
    return RuntimeError(
        f"{who}: {function_name(func)} returned None for a whole pass of the data ({num_dropped} datapoints in a row). "
        f"Returning None drops the datapoint, so no data is left. Return the datapoint; is a return statement missing?"
    )
