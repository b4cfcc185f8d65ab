"""A DataFlow whose passes must be as long as it says."""

from __future__ import annotations

from typing import Iterator

from ..dataflow.base import Datapoint, ProxyDataFlow

__all__ = ["WholePasses"]


class WholePasses(ProxyDataFlow):
    """
    The datapoints of a DataFlow, and an error at the end of a pass that has fewer of them than `len()` says.

    Args:
        ds: the DataFlow; without a length, every pass is whole.

    Raises:
        RuntimeError: a pass ended early.
    """

    def __iter__(self) -> Iterator[Datapoint]:
        num_seen = 0
        for datapoint in self.ds:
            num_seen += 1
            yield datapoint
        try:
            size = len(self.ds)
        except NotImplementedError:
            return
        if num_seen < size:
            raise RuntimeError(
                f"its pass ended after {num_seen} datapoints, but its size is {size}. Make len() of the DataFlow the number of "
                "datapoints it gives."
            )
