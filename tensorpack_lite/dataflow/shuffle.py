"""
Datapoints kept in memory: for a random order, or so that they need not be made again.

In:  datapoints of any DataFlow.
Out: the same datapoints, in another order or from memory.
"""

from __future__ import annotations

from typing import Any, Iterator

from .base import DataFlow, DataFlowReentrantGuard, Datapoint, ProxyDataFlow, RNGDataFlow
from .repeat import RepeatedData

__all__ = ["CacheData", "LocallyShuffleData"]


class LocallyShuffleData(ProxyDataFlow, RNGDataFlow):
    """
    Shuffle data that cannot be indexed, with a buffer: first in, first out, and mixed every now and then.

    Length: `len(ds) * num_reuse`, as the size of an epoch; iteration itself never ends.
    Order: random within a distance of about `buffer_size`. The buffer stays filled between passes.
    Process: stays in this one.

    Args:
        ds: the DataFlow to shuffle; it is repeated without end.
        buffer_size: datapoints in memory; >= 1. The first one comes out when the buffer is full.
        num_reuse: how often each datapoint goes through the buffer; >= 1.
        shuffle_interval: the buffer is shuffled after so many incoming datapoints. Default: a third of `buffer_size`.
            Larger is faster, and mixes less.

    Raises:
        ValueError: a number is below 1.
        RuntimeError: iterated twice at once; or `ds` is empty.

    Example:
        >>> LocallyShuffleData(DataFromGenerator(read_records), buffer_size=5000)

    tensorpack: same; there a `buffer_size` below 3 fails, and `reset_state` leaves the buffer filled.
    """

    def __init__(
        self, ds: DataFlow, buffer_size: int, num_reuse: int = 1, shuffle_interval: int | None = None
    ) -> None:
        super().__init__(ds)
        self.buffer_size = int(buffer_size)
        self.num_reuse = int(num_reuse)
        self.shuffle_interval = (
            max(1, self.buffer_size // 3) if shuffle_interval is None else int(shuffle_interval)
        )
        if min(self.buffer_size, self.num_reuse, self.shuffle_interval) < 1:
            raise ValueError(
                f"LocallyShuffleData: buffer_size, num_reuse and shuffle_interval must be at least 1, got "
                f"{buffer_size}, {num_reuse} and {shuffle_interval}."
            )
        self.repeated = RepeatedData(ds, -1)
        self._guard = DataFlowReentrantGuard()
        self._buffer: list[Datapoint] = []

    def __len__(self) -> int:
        return len(self.ds) * self.num_reuse

    def reset_state(self) -> None:
        """Reset `ds`; the buffer is empty."""
        ProxyDataFlow.reset_state(self)
        RNGDataFlow.reset_state(self)
        self.repeated = RepeatedData(self.ds, -1)
        self._buffer = []

    def __iter__(self) -> Iterator[Datapoint]:
        with self._guard:
            buffer = self._buffer  # when full it is a ring, whose `oldest` datapoint leaves next
            oldest = until_shuffle = 0
            for incoming in self.repeated:
                for _ in range(self.num_reuse):
                    if len(buffer) < self.buffer_size:
                        buffer.append(incoming)
                        continue
                    if until_shuffle == 0:
                        buffer[:] = _shuffled(buffer, self.rng)
                        until_shuffle = self.shuffle_interval
                    outgoing, buffer[oldest] = buffer[oldest], incoming
                    oldest = (oldest + 1) % self.buffer_size
                    yield outgoing
                until_shuffle = max(0, until_shuffle - 1)


class CacheData(ProxyDataFlow, RNGDataFlow):
    """
    Keep all datapoints of the first complete pass in memory, and yield them from there ever after.

    Length: that of `ds`.
    Order: that of `ds`; with `shuffle`, a new random one each pass from the second on.
    Process: stays in this one. The memory starts empty in each process.

    Args:
        ds: the DataFlow to keep; finite. A pass over it that is left early is forgotten.
        shuffle: shuffle the passes that come from memory.

    Raises:
        RuntimeError: iterated twice at once.

    Note:
        Datapoints from memory are the same objects each time: don't change their arrays in place.

    tensorpack: same; there a first pass that is left early is taken for the whole data.
    """

    def __init__(self, ds: DataFlow, shuffle: bool = False) -> None:
        super().__init__(ds)
        self.shuffle = shuffle
        self._guard = DataFlowReentrantGuard()
        self._forget()

    def _forget(self) -> None:
        self.buffer: list[Datapoint] = []
        self._complete = False

    def reset_state(self) -> None:
        """Reset `ds`; nothing is in memory."""
        ProxyDataFlow.reset_state(self)
        RNGDataFlow.reset_state(self)
        self._forget()

    def __iter__(self) -> Iterator[Datapoint]:
        with self._guard:
            if not self._complete:
                self.buffer = []
                for datapoint in self.ds:
                    self.buffer.append(datapoint)
                    yield datapoint
                self._complete = True
                return
            if self.shuffle:
                self.buffer = _shuffled(self.buffer, self.rng)
            yield from self.buffer


def _shuffled(items: list[Any], rng: Any) -> list[Any]:
    """A list in random order; by indices, because `rng.shuffle` is several times slower on a list."""
    return [items[index] for index in rng.permutation(len(items)).tolist()]
