"""Base class for DataFlows that keep a whole pass in memory."""

from __future__ import annotations

from typing import Iterator

import numpy as np

from ..base import DataFlow, DataFlowReentrantGuard, Datapoint, ProxyDataFlow
from .stage_position import State


class KeepsPass(ProxyDataFlow):
    """
    Base class for DataFlows that read one pass of `ds`, and yield later passes from memory.

    The datapoints are not saved, only their order, and the positions of the stages below before that pass. A resumed one
    reads the pass again from there. As long as the pass has not ended, it is replayed like that of any other stage.

    Args:
        ds: the DataFlow to read.

    Attributes:
        buffer: the datapoints of the pass.
        is_complete: whether the pass has ended.
    """

    def __init__(self, ds: DataFlow) -> None:
        super().__init__(ds)
        self._guard = DataFlowReentrantGuard()
        self._forget()

    def reset_state(self) -> None:
        """Reset `ds` and forget the pass."""
        super().reset_state()
        self._forget()

    def _forget(self) -> None:
        self.buffer: list[Datapoint] = []
        self.is_complete = False
        self._order = np.arange(0)  # of `buffer`, as numbers of the pass
        self._states_before: list[State] | None = None  # of the stages below

    def _fill(self) -> Iterator[Datapoint]:
        """Yield a pass of `ds` and keep it."""
        with self._guard:
            states = super()._states_read()
            self.buffer = []
            for datapoint in self.ds:
                self.buffer.append(datapoint)
                yield datapoint
            self.is_complete, self._states_before = True, states
            self._order = np.arange(len(self.buffer))

    def _permute(self, permutation: np.ndarray) -> None:
        """Change the order of the datapoints in memory."""
        self.buffer = [self.buffer[index] for index in permutation.tolist()]
        self._order = self._order[permutation]

    # The position ----------------------------------------------------------------------------------------------------
    def _can_seek(self) -> bool:
        return self.is_complete and super()._can_seek()

    def _own_state(self) -> State:
        return {"complete": self.is_complete, "order": self._order}

    def _restore_own_state(self, state: State) -> None:
        if state["complete"]:
            for _ in self._fill():
                pass
            self._permute(state["order"])

    def _states_read(self) -> list[State]:
        return super()._states_read() if self._states_before is None else self._states_before
