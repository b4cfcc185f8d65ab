"""The position of maps with workers, which hold the datapoints in flight back."""

from __future__ import annotations

from typing import Any, Iterator

from ..base import DataFlow, Datapoint, ProxyDataFlow
from ..repeat import RepeatedData
from .stage_position import State


class HoldsInFlight(ProxyDataFlow):
    """
    Base class for DataFlows whose datapoints in flight are in a pool of workers, which is an `ExactPool` if the position is recorded.

    `reset_state` sets the attributes, and `_numbered` to that of the pool.
    """

    repeated: RepeatedData | None  # the source of all passes; None if each pass has its own
    _pool: Any
    _source: Iterator[Datapoint]
    _in_flight: int
    _at_start: bool

    def _datapoints(self) -> DataFlow:
        """Return what the pool maps: the datapoints of `ds`, numbered if the position is recorded."""
        return self.ds if self._numbered is None else self._numbered

    def _begin_source(self) -> None:
        """Begin a pass of `ds`, even if an earlier pass was left."""
        if self._numbered is not None:
            self._numbered.leave()
        self._source = iter(self._datapoints())

    def _own_state(self) -> State:
        return {"pool": self._pool.state(), "at_start": self._at_start}

    def _restore_own_state(self, state: State) -> None:
        try:
            self._in_flight = self._pool.restore(state["pool"])
        except BaseException:  # also after Ctrl-C no workers may keep running
            self._stop_workers()
            raise
        self._at_start = state["at_start"]
        # the rest of the open pass may be empty
        self._source = self._numbered.rest() if self.repeated is None else self.repeated.iter_from(1)

    def _leave(self) -> None:
        """Keep what is in flight."""
