"""
DataFlows that repeat passes or datapoints, or change the length of a pass.

In:  datapoints of any DataFlow.
Out: the same datapoints, repeated or divided into other passes.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import Iterable, Iterator

from ..utils.checks import check_at_least
from ..utils.inspection import origin
from .base import DataFlow, DataFlowReentrantGuard, Datapoint, InfiniteLengthError, ProxyDataFlow
from .exact.stage_position import State

_END = object()
_MAX_EMPTY = 100  # passes without a datapoint, in a finite RepeatedData whose map function drops all
_NOTHING: Iterator[Datapoint] = iter(())


class RepeatedData(ProxyDataFlow):
    """
    DataFlow that repeats another one: each pass consists of several passes of `ds`.

    Length: `len(ds) * num`; infinite if `num` is -1.
    Order: that of `ds`, pass after pass.
    Process: runs in the current process.

    Args:
        ds: the DataFlow to repeat.
        num: number of passes; -1 repeats without end.

    Raises:
        ValueError: `num` is below -1.
        RuntimeError: (while iterating) `num` is -1 and a pass of `ds` was empty, or a MapData in it has dropped every
            datapoint of all passes, or of the first 100.

    Attributes:
        num_passes: the number of passes of `ds` that all iterators together have started.
    """

    state_attributes = ("_pass",)
    num_passes = 0
    _pass = 0

    def __init__(self, ds: DataFlow, num: int) -> None:
        super().__init__(ds)
        self.num = check_at_least("RepeatedData: num (-1 means without end)", num, -1)

    def __len__(self) -> int:
        if self.num == -1:
            raise InfiniteLengthError("RepeatedData: has no length; with num=-1 it never ends.")
        return len(self.ds) * self.num

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the rest of the open pass of `ds`, if there is one, and the passes that follow."""
        passes = self._endless_passes() if self.num == -1 else self._passes(num_done > 0)
        if num_done:
            passes = chain([self.ds], passes)  # the rest of a pass, which may be empty
        return chain.from_iterable(passes)  # no generator, which each datapoint would pass

    def _endless_passes(self) -> Iterator[Iterable[Datapoint]]:
        while True:
            one_pass = iter(self.ds)
            self.num_passes += 1
            yield [_first_of(one_pass, self)]
            yield one_pass

    def _passes(self, has_yielded: bool) -> Iterator[Iterable[Datapoint]]:
        for number in range(self._pass + 1 if has_yielded else 0, self.num):
            self._pass = number
            self.num_passes += 1
            one_pass = iter(self.ds)
            first = list(islice(one_pass, 1))
            if first:
                has_yielded = True
                yield _take(first)
                yield one_pass
            elif not has_yielded and number + 1 >= min(self.num, _MAX_EMPTY) and why_empty(self.ds):
                raise _empty_error(self, why_empty(self.ds))


class RepeatedDataPoint(ProxyDataFlow):
    """
    DataFlow that yields each datapoint several times in a row.

    Length: `len(ds) * num`.
    Order: that of `ds`.
    Process: runs in the current process.

    Args:
        ds: the DataFlow whose datapoints are repeated. The same object is yielded each time.
        num: how many times each datapoint is yielded; >= 1.

    Raises:
        ValueError: `num` is below 1.
    """

    def __init__(self, ds: DataFlow, num: int) -> None:
        super().__init__(ds)
        self.num = check_at_least("RepeatedDataPoint: num", num, 1)

    def __len__(self) -> int:
        return len(self.ds) * self.num

    def __iter__(self) -> Iterator[Datapoint]:
        for datapoint in self.ds:
            for _ in range(self.num):
                yield datapoint


class FixedSizeData(ProxyDataFlow):
    """
    DataFlow whose passes have `size` datapoints, whatever the length of `ds`.

    Length: `size`.
    Order: that of `ds`. With 5 datapoints and size 3, passes are 1 2 3, 4 5 1, 2 3 4, ...; if `keep_state` is
        False, every pass is 1 2 3.
    Process: runs in the current process.

    Args:
        ds: the DataFlow. If it ends within a pass, it is started again.
        size: number of datapoints in a pass; >= 1.
        keep_state: whether a pass continues where the last one stopped or was left. False starts `ds` again
            at the beginning of each pass.

    Raises:
        ValueError: `size` is below 1.
        RuntimeError: (while iterating) a pass of `ds` was empty, or there is a second iterator.
    """

    def __init__(self, ds: DataFlow, size: int, keep_state: bool = True) -> None:
        super().__init__(ds)
        self._size = int(check_at_least("FixedSizeData: size", size, 1))
        self.keep_state = keep_state
        self._guard = DataFlowReentrantGuard()
        self._source = _NOTHING

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Reset `ds`. The next pass starts at its beginning."""
        super().reset_state()
        self._source = _NOTHING

    def _own_state(self) -> State:
        return {"is_open": self._source is not _NOTHING}

    def _restore_own_state(self, state: State) -> None:
        self._source = iter(self.ds) if state["is_open"] else _NOTHING

    def _leave(self) -> None:
        if not self.keep_state:
            super()._leave()

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the number of datapoints that is left."""
        with self._guard:
            if not self.keep_state and num_done == 0:
                self._source = _NOTHING
            for number in range(num_done + 1, self._size + 1):
                datapoint = next(self._source, _END)
                if datapoint is _END:
                    self._source = iter(self.ds)
                    datapoint = _first_of(self._source, self)
                if not self.keep_state and number == self._size:
                    # before the last datapoint, so that no pass of `ds` is open afterwards
                    self._source = _NOTHING
                yield datapoint


def run_without_end(ds: DataFlow) -> Iterator[list[Datapoint]]:
    """
    Reset a DataFlow and repeat it without end; runs in a worker process, as a `Task`.

    Yields:
        Lists of one datapoint.
    """
    ds.reset_state()
    for datapoint in RepeatedData(ds, -1):
        yield [datapoint]


def _take(datapoints: list[Datapoint]) -> Iterator[Datapoint]:
    """Yield the elements of a list, which does not keep them alive."""
    while datapoints:
        yield datapoints.pop(0)


def _first_of(one_pass: Iterator[Datapoint], repeater: ProxyDataFlow) -> Datapoint:
    datapoint = next(one_pass, _END)
    if datapoint is _END:
        cause = "Check that the data is not empty; if it is a running generator, pass a generator function instead."
        raise _empty_error(repeater, why_empty(repeater.ds) or cause)
    return datapoint


def _empty_error(repeater: ProxyDataFlow, reason: str) -> RuntimeError:
    return RuntimeError(
        f"{type(repeater).__name__}: {type(repeater.ds).__name__} yielded no datapoint in a whole pass, so it cannot be "
        f"repeated. {reason}"
    )


def why_empty(ds: object) -> str:
    """
    Return a sentence about the stage that dropped every datapoint of its last pass; "" if there is none.

    Args:
        ds: the last stage of a pipeline.
    """
    while ds is not None:
        reason: str = getattr(ds, "dropped_all", "")
        if reason:
            return reason
        ds = getattr(ds, "ds", None)
    return ""


def is_endless(ds: object) -> bool:
    """
    Return whether a pipeline never ends, because it repeats its data without end.

    Args:
        ds: the last stage. Only stages of the library are known not to end a pass of an endless one early.
    """
    while (
        isinstance(ds, ProxyDataFlow) and origin(type(ds).__module__) == "library" and not isinstance(ds, FixedSizeData)
    ):
        if isinstance(ds, RepeatedData) and ds.num == -1:
            return True
        ds = ds.ds
    return False
