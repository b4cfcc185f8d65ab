"""The datapoints of a DataFlow, as an input reads them."""

from __future__ import annotations

from typing import Callable, Iterator, Sequence

import numpy as np

from ..dataflow.base import DataFlow, Datapoint


class Stream:
    """
    The datapoints of a DataFlow, in the order in which an input reads them. `DataPosition` is a stream with a position.

    Args:
        flow: the DataFlow that is reset.
        passes: the same DataFlow, repeated as often as the input needs it.

    Attributes:
        flow: as given.
        stamp: to be called with the arrays of each datapoint before the next one is read; returns its number. None: not needed.
    """

    stamp: Callable[[Sequence[np.ndarray]], int] | None = None

    def __init__(self, flow: DataFlow, passes: DataFlow) -> None:
        self.flow = flow
        self._passes = passes

    def reset(self) -> None:
        """Reset the DataFlow."""
        self.flow.reset_state()

    def __iter__(self) -> Iterator[Datapoint]:
        """Iterate over the datapoints."""
        return iter(self._passes)

    def leave_pass(self) -> None:
        """Let the next iteration begin a new pass."""
