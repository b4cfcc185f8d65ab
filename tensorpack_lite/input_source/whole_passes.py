"""DataFlow that checks the length of each pass."""

from __future__ import annotations

from typing import Iterator

from ..dataflow.base import Datapoint, ProxyDataFlow, length_or_none


class WholePasses(ProxyDataFlow):
    """
    DataFlow that yields the datapoints of another one, and raises an error if a pass has fewer datapoints than `len()`.

    Args:
        ds: the DataFlow. Without a length, no pass is too short.

    Raises:
        RuntimeError: a pass ended early.
    """

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the datapoints that follow, and count them."""
        num_seen = num_done
        for datapoint in self.ds:
            num_seen += 1
            yield datapoint
        size = length_or_none(self.ds)
        if size is not None and num_seen < size:
            raise RuntimeError(
                f"its pass ended after {num_seen} datapoints, but its size is {size}. Make len() of the DataFlow equal the "
                "number of datapoints that it yields."
            )
