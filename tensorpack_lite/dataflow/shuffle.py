"""
DataFlows that keep datapoints in memory, to shuffle them or to reuse them.

In:  datapoints of any DataFlow.
Out: the same datapoints, shuffled or from memory.
"""

from __future__ import annotations

import itertools
from typing import Any, Iterator

import numpy as np

from ..utils.checks import check_at_least
from .base import DataFlow, DataFlowReentrantGuard, Datapoint, ProxyDataFlow, RNGDataFlow
from .exact.numbered_source import Numbered, make_numbered_source
from .exact.stage_position import State
from .repeat import RepeatedData


class LocallyShuffleData(ProxyDataFlow, RNGDataFlow):
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

    def __init__(
        self, ds: DataFlow, buffer_size: int, num_reuse: int = 1, shuffle_interval: int | None = None
    ) -> None:
        super().__init__(ds)
        self.buffer_size = int(check_at_least("LocallyShuffleData: buffer_size", buffer_size, 1))
        self.num_reuse = int(check_at_least("LocallyShuffleData: num_reuse", num_reuse, 1))
        interval = max(1, self.buffer_size // 3) if shuffle_interval is None else shuffle_interval
        self.shuffle_interval = int(check_at_least("LocallyShuffleData: shuffle_interval", interval, 1))
        self.repeated = RepeatedData(ds, -1)
        self._guard = DataFlowReentrantGuard()
        self._buffer: list[Any] = []  # of pairs (number, datapoint) if there is a numbered source
        self._incoming: Any = None  # the datapoint that was taken last
        self._num_put = 0  # how many times it was put into the buffer, minus 1
        self._until_shuffle = 0

    def __len__(self) -> int:
        return len(self.ds) * self.num_reuse

    def reset_state(self) -> None:
        """Reset `ds` and empty the buffer."""
        ProxyDataFlow.reset_state(self)
        RNGDataFlow.reset_state(self)
        self._numbered = make_numbered_source(self, self._held, self.buffer_size)
        self.repeated = RepeatedData(self.ds if self._numbered is None else self._numbered, -1)
        self._buffer, self._incoming = [], None

    def _held(self) -> list[Numbered]:
        return self._buffer if self._incoming is None else [*self._buffer, self._incoming]

    def _own_state(self) -> State:
        return {
            "tape": self._numbered.state(),
            "buffer": [number for number, _ in self._buffer],
            "incoming": self._incoming and self._incoming[0],
            "num_put": self._num_put,
            "until_shuffle": self._until_shuffle,
        }

    def _restore_own_state(self, state: State) -> None:
        held = self._numbered.read_again(state["tape"])
        self._buffer = [(number, held[number]) for number in state["buffer"]]
        self._incoming = state["incoming"] and (state["incoming"], held[state["incoming"]])
        self._num_put, self._until_shuffle = state["num_put"], state["until_shuffle"]

    def __iter__(self, start: int = 0) -> Iterator[Datapoint]:
        with self._guard:
            if start == 0:
                self._until_shuffle = 0
                if self._numbered is not None:
                    self._numbered.leave()
            shuffled = self._shuffle(start)
            yield from shuffled if self._numbered is None else (datapoint for _, datapoint in shuffled)

    def _shuffle(self, start: int) -> Iterator[Any]:
        # when full, a ring whose `oldest` datapoint is yielded next
        buffer, oldest = self._buffer, start % self.buffer_size
        source, puts = self.repeated.__iter__(start), range(self.num_reuse)
        if start:
            source, puts = itertools.chain([self._incoming], source), range(self._num_put + 1, self.num_reuse)
        for self._incoming in source:
            for self._num_put in puts:
                if len(buffer) < self.buffer_size:
                    buffer.append(self._incoming)
                    continue
                if self._until_shuffle == 0:
                    # several times faster than `rng.shuffle` on a list
                    buffer[:] = [buffer[index] for index in self.rng.permutation(len(buffer)).tolist()]
                    self._until_shuffle = self.shuffle_interval
                outgoing, buffer[oldest] = buffer[oldest], self._incoming
                oldest = (oldest + 1) % self.buffer_size
                yield outgoing
            self._until_shuffle = max(0, self._until_shuffle - 1)
            puts = range(self.num_reuse)


class CacheData(ProxyDataFlow, RNGDataFlow):
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
        self._guard = DataFlowReentrantGuard()
        self.buffer: list[Datapoint] = []
        self._complete = False
        self._order = np.arange(0)  # of the buffer, as numbers of the pass that filled it
        # of the stages below, before the pass that fills the cache
        self._states_before: list[State] | None = None

    def reset_state(self) -> None:
        """Reset `ds` and empty the cache."""
        ProxyDataFlow.reset_state(self)
        RNGDataFlow.reset_state(self)
        self.buffer = []
        self._complete = False
        self._states_before = None

    def _can_seek(self) -> bool:
        return self._complete and super()._can_seek()

    def _own_state(self) -> State:
        return {"complete": self._complete, "order": self._order}

    def _restore_own_state(self, state: State) -> None:
        if state["complete"]:
            for _ in self._fill():
                pass
            self._permute(state["order"])

    def _states_read(self) -> list[State]:
        """Return the states before the pass that filled the cache, from which a resumed stage fills it again."""
        return super()._states_read() if self._states_before is None else self._states_before

    def __iter__(self, start: int = 0) -> Iterator[Datapoint]:
        return self._from_memory(start) if self._complete else self._fill()

    def _fill(self) -> Iterator[Datapoint]:
        with self._guard:
            states = super()._states_read()
            self.buffer = []
            for datapoint in self.ds:
                self.buffer.append(datapoint)
                yield datapoint
            self._complete, self._states_before = True, states
            self._order = np.arange(len(self.buffer))

    def _from_memory(self, start: int) -> Iterator[Datapoint]:
        with self._guard:
            if self.shuffle and start == 0:
                self._permute(self.rng.permutation(len(self.buffer)))
            yield from itertools.islice(self.buffer, start, None)

    def _permute(self, permutation: np.ndarray) -> None:
        self.buffer = [self.buffer[index] for index in permutation.tolist()]
        self._order = self._order[permutation]
