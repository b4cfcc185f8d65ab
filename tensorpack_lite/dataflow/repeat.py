"""
How often: a pass repeated, a datapoint repeated, passes of a chosen length.

In:  datapoints of any DataFlow.
Out: the same datapoints, more often or cut differently into passes.
"""

from __future__ import annotations

from typing import Iterator

from .base import DataFlow, DataFlowReentrantGuard, Datapoint, InfiniteLengthError, ProxyDataFlow

__all__ = ["FixedSizeData", "RepeatedData", "RepeatedDataPoint", "run_without_end"]

_END = object()


class RepeatedData(ProxyDataFlow):
    """
    Several passes over a DataFlow as one.

    Length: `len(ds) * num`; none for -1.
    Order: that of `ds`, pass after pass.
    Process: stays in this one.

    Args:
        ds: the DataFlow to repeat.
        num: how many passes; -1 for no end.

    Raises:
        ValueError: `num` is below -1.
        RuntimeError: `num` is -1 and a pass of `ds` was empty, so that nothing would ever come.

    Attributes:
        num_passes: with -1, how many passes of `ds` were begun, by all iterators together.
    """

    num_passes = 0

    def __init__(self, ds: DataFlow, num: int) -> None:
        super().__init__(ds)
        if num < -1:
            raise ValueError(f"RepeatedData: num must be a number of passes, or -1 for no end; got {num}.")
        self.num = num

    def __len__(self) -> int:
        if self.num == -1:
            raise InfiniteLengthError("RepeatedData: has no length; with num=-1 it never ends.")
        return len(self.ds) * self.num

    def __iter__(self) -> Iterator[Datapoint]:
        if self.num != -1:
            for _ in range(self.num):
                yield from self.ds
            return
        while True:
            one_pass = iter(self.ds)
            self.num_passes += 1
            yield _first_of(one_pass, self)
            yield from one_pass


class RepeatedDataPoint(ProxyDataFlow):
    """
    Each datapoint several times in a row.

    Length: `len(ds) * num`.
    Order: that of `ds`.
    Process: stays in this one.

    Args:
        ds: the DataFlow whose datapoints are repeated. The same object is yielded each time.
        num: how often; >= 1.

    Raises:
        ValueError: `num` is below 1.

    tensorpack: same.
    """

    def __init__(self, ds: DataFlow, num: int) -> None:
        super().__init__(ds)
        if num < 1:
            raise ValueError(f"RepeatedDataPoint: num must be at least 1, got {num}.")
        self.num = num

    def __len__(self) -> int:
        return len(self.ds) * self.num

    def __iter__(self) -> Iterator[Datapoint]:
        for datapoint in self.ds:
            for _ in range(self.num):
                yield datapoint


class FixedSizeData(ProxyDataFlow):
    """
    Passes of exactly `size` datapoints, whatever the length of the DataFlow.

    Length: `size`.
    Order: that of `ds`. With 5 datapoints and size 3: 1 2 3, 4 5 1, 2 3 4, ... (`keep_state`), or 1 2 3 each time.
    Process: stays in this one.

    Args:
        ds: the DataFlow to cut. When it ends within a pass it is started again.
        size: datapoints in a pass; >= 1.
        keep_state: go on, in the next pass, where the last one stopped (also when it was left early); False
            starts `ds` again at the beginning of each pass.

    Raises:
        ValueError: `size` is below 1.
        RuntimeError: a pass of `ds` was empty; or iterated twice at once.

    tensorpack: same; there `keep_state=False` goes on after a pass that was left early.
    """

    def __init__(self, ds: DataFlow, size: int, keep_state: bool = True) -> None:
        super().__init__(ds)
        self._size = int(size)
        if self._size < 1:
            raise ValueError(f"FixedSizeData: size must be at least 1, got {size}.")
        self.keep_state = keep_state
        self._guard = DataFlowReentrantGuard()
        self._source: Iterator[Datapoint] = iter(())

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Reset `ds`; the next pass begins at its beginning."""
        super().reset_state()
        self._source = iter(())

    def __iter__(self) -> Iterator[Datapoint]:
        with self._guard:
            if not self.keep_state:
                self._source = iter(())
            for _ in range(self._size):
                datapoint = next(self._source, _END)
                if datapoint is _END:
                    self._source = iter(self.ds)
                    datapoint = _first_of(self._source, self)
                yield datapoint


def run_without_end(ds: DataFlow) -> Iterator[list[Datapoint]]:
    """
    Reset a DataFlow and repeat it without end: what the `Task` of a worker process is made of.

    Yields:
        Lists of one datapoint.
    """
    ds.reset_state()
    for datapoint in RepeatedData(ds, -1):
        yield [datapoint]


def _first_of(one_pass: Iterator[Datapoint], repeater: ProxyDataFlow) -> Datapoint:
    datapoint = next(one_pass, _END)
    if datapoint is _END:
        raise RuntimeError(
            f"{type(repeater).__name__}: {type(repeater.ds).__name__} yielded no datapoint in a whole pass, so there is "
            f"nothing to repeat. Is it empty, or a running generator that ended? Pass a generator function instead."
        )
    return datapoint
