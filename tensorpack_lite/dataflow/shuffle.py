"""
DataFlows that keep datapoints in memory, to shuffle them or to reuse them.

In:  datapoints of any DataFlow.
Out: the same datapoints, shuffled or from memory.
"""

from __future__ import annotations

import itertools
from typing import Iterator

from ..utils.checks import check_at_least
from .base import DataFlow, Datapoint, RNGDataFlow
from .exact.holds_back import HoldsBack
from .exact.kept_pass import KeepsPass
from .exact.numbered_source import Numbered


class LocallyShuffleData(HoldsBack, RNGDataFlow):
    """
    DataFlow that shuffles data that cannot be indexed, with a FIFO buffer that is shuffled at intervals.

    Length: `len(ds) * num_reuse`, for the size of an epoch; iteration itself never ends.
    Order: random within a distance of about `buffer_size`. The buffer stays filled between passes.
    Process: runs in the current process.

    Args:
        ds: the DataFlow to shuffle; it is repeated without end.
        buffer_size: number of datapoints in memory; >= 1. The first datapoint is yielded when the buffer is
            full.
        num_reuse: how many times each datapoint enters the buffer; >= 1.
        shuffle_interval: the buffer is shuffled after this number of incoming datapoints; >= 1. Default: a
            third of `buffer_size`. A larger number is faster, but shuffles less well.

    Raises:
        ValueError: a number is below 1.
        RuntimeError: (while iterating) `ds` is empty, or there is a second iterator.

    Example:
        >>> LocallyShuffleData(DataFromGenerator(read_records), buffer_size=5000)
    """

    state_attributes = ("num_put", "until_shuffle")
    num_put = 0  # how many times the incoming datapoint was put into the buffer, minus 1
    until_shuffle = 0  # number of incoming datapoints

    def __init__(self, ds: DataFlow, buffer_size: int, num_reuse: int = 1, shuffle_interval: int | None = None) -> None:
        self.buffer_size = int(check_at_least("LocallyShuffleData: buffer_size", buffer_size, 1))
        self.num_reuse = int(check_at_least("LocallyShuffleData: num_reuse", num_reuse, 1))
        interval = max(1, self.buffer_size // 3) if shuffle_interval is None else shuffle_interval
        self.shuffle_interval = int(check_at_least("LocallyShuffleData: shuffle_interval", interval, 1))
        super().__init__(ds, capacity=self.buffer_size, is_endless=True)

    def __len__(self) -> int:
        return len(self.ds) * self.num_reuse

    def reset_state(self) -> None:
        """Reset `ds` and empty the buffer."""
        super().reset_state()
        RNGDataFlow.reset_state(self)

    def advance(self, held: list[Numbered], source: Iterator[Numbered], num_done: int) -> Iterator[Datapoint]:
        """Put each datapoint into the buffer, and yield the one that it replaces."""
        # when full, `held` is a ring whose `oldest` pair is yielded next
        size, oldest, puts = self.buffer_size, num_done % self.buffer_size, range(self.num_reuse)
        if num_done == 0:
            self.until_shuffle = 0
        else:  # continue with the pair that was put last
            source = itertools.chain([held[(num_done - 1) % len(held)]], source)
            puts = range(self.num_put + 1, self.num_reuse)
        for incoming in source:
            for self.num_put in puts:
                if len(held) < size:
                    held.append(incoming)
                    continue
                if self.until_shuffle == 0:
                    # several times faster than `rng.shuffle` on a list
                    held[:] = [held[index] for index in self.rng.permutation(len(held)).tolist()]
                    self.until_shuffle = self.shuffle_interval
                (_, outgoing), held[oldest] = held[oldest], incoming
                oldest = (oldest + 1) % size
                yield outgoing
            if self.until_shuffle > 0:
                self.until_shuffle -= 1
            puts = range(self.num_reuse)


class CacheData(KeepsPass, RNGDataFlow):
    """
    DataFlow that keeps the datapoints of the first complete pass in memory, and yields them from memory in all later passes.

    Length: that of `ds`.
    Order: that of `ds`; with `shuffle`, a new random order in each pass except the first.
    Process: runs in the current process. Each process has its own cache, which starts empty.

    Args:
        ds: the DataFlow to cache; it must be finite. If a pass is left early, its datapoints are not kept.
        shuffle: whether to shuffle the passes from memory.

    Raises:
        RuntimeError: there is a second iterator.

    Note:
        Every pass from memory yields the same objects: do not change their arrays in place.
    """

    def __init__(self, ds: DataFlow, shuffle: bool = False) -> None:
        super().__init__(ds)
        self.shuffle = shuffle

    def reset_state(self) -> None:
        """Reset `ds` and empty the cache."""
        super().reset_state()
        RNGDataFlow.reset_state(self)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the datapoints in memory, without the first ones; in the first pass, those of `ds`."""
        return self._from_memory(num_done) if self.is_complete else self._fill()

    def _from_memory(self, num_done: int) -> Iterator[Datapoint]:
        with self._guard:
            if self.shuffle and num_done == 0:
                self._permute(self.rng.permutation(len(self.buffer)))
            yield from itertools.islice(self.buffer, num_done, None)
