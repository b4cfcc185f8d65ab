"""Base class for DataFlows that hold datapoints back, such as shuffle buffers and incomplete batches."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Any, Iterator

from ..base import DataFlow, DataFlowReentrantGuard, Datapoint, ProxyDataFlow
from ..repeat import RepeatedData
from .numbered_source import Numbered, NumberedSource
from .stage_position import State

__all__ = ["HoldsBack"]


class HoldsBack(ProxyDataFlow):
    """
    Base class for DataFlows that hold datapoints back: those that were read, but not yet yielded, also between passes.

    Write it without resume first: as a ProxyDataFlow whose `__iter__` reads `self.ds`. Exact resume replays it, from the start of
    the pass. If it holds datapoints between passes, or has read more datapoints than it has yielded, derive from this class and turn
    `__iter__` into `advance`:

    - `source` takes the place of `self.ds`. It yields pairs of a number and a datapoint. Do not compare the numbers: all are 0 if
      the position is not recorded.
    - All pairs that are held are in `held`, before each `yield` and before the next pair is read. Change it in place, e.g. sort or
      extend it; a resume restores its order, too. Change `held` and attributes before the `yield`, not after it: a position is
      saved at the `yield`.
    - Everything else that lasts from one datapoint to the next is an attribute whose value is a JSON value, and whose name
      is in `state_attributes`. Set it in `reset_state`, or where `num_done` is 0 if it belongs to the pass.
    - Local variables and the place in a loop are lost: `advance` is called again when training resumes, and for the next pass if one
      is left early. So it begins with what is due: what it would have yielded from `held` before it read the next pair. `source`
      then yields what is left of its pass, which is nothing if it has ended.
    - `held` still has its pairs when the next pass begins. If passes are separate, clear it where `num_done` is 0.

    Only the numbers are saved. When training resumes, the datapoints are read again, and put back into `held`. Draw random
    numbers from `self.rng` of an RNGDataFlow or from a generator of `get_rng`, as in every stage.

    Args:
        ds: the DataFlow to read.
        capacity: the usual number of held datapoints. One that was read more than ten times as many datapoints ago is saved itself, up to
            32 MB, if it is a list, tuple or dict of arrays, numbers and text; otherwise more is read again.
        is_endless: whether `source` repeats `ds` without end. Otherwise it yields one pass.

    Raises:
        RuntimeError: (while iterating) there is a second iterator.

    Attributes:
        held: see above; a list, unless `arrange` returns something else.

    Example:
        >>> class Delay(HoldsBack):
        ...     '''Stage that yields each datapoint after it has read the next three.'''
        ...     def __init__(self, ds):
        ...         super().__init__(ds, capacity=3)
        ...     def advance(self, held, source, num_done):
        ...         if num_done == 0:
        ...             held.clear()
        ...         for pair in source:
        ...             held.append(pair)
        ...             if len(held) > 3:
        ...                 yield held.pop(0)[1]
        ...         while held:
        ...             yield held.pop(0)[1]
    """

    def __init__(self, ds: DataFlow, capacity: int, is_endless: bool = False) -> None:
        ProxyDataFlow.__init__(self, ds)  # a second base class has other arguments
        self._capacity = capacity
        self._is_endless = is_endless
        self._guard = DataFlowReentrantGuard()
        self._hold_nothing()

    @abstractmethod
    def advance(self, held: Any, source: Iterator[Numbered], num_done: int) -> Iterator[Datapoint]:
        """
        Yield the datapoints of a pass, or those that follow in a pass that is continued.

        Args:
            held: the pairs that are held.
            source: pairs of a number and a datapoint of `ds`. The number is 0 if the position is not recorded.
            num_done: how many datapoints of the pass were already yielded; 0 if it begins.
        """

    def arrange(self, held: list[Numbered]) -> Any:
        """
        Return `held` for some pairs, which are in the order in which `held` had them. By default, it is this list.

        Override it to keep the pairs in a dict of lists.
        """
        return held

    def reset_state(self) -> None:
        """Reset `ds`, and hold nothing."""
        super().reset_state()
        is_recorded = self._stage_position is not None
        self._numbered = NumberedSource(self.ds, self._pairs, self._capacity) if is_recorded else None
        self._hold_nothing()

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Begin or continue `advance`."""
        with self._guard:
            if num_done == 0 and self._numbered is not None:
                self._numbered.leave()
            yield from self.advance(self.held, self._read(num_done), num_done)

    def _hold_nothing(self) -> None:
        self.held: Any = self.arrange([])
        self._has_ended = False  # the pass of `ds`
        self._passes = self.ds if self._numbered is None else self._numbered
        self.repeated = RepeatedData(self._passes, -1) if self._is_endless else None

    def _read(self, num_done: int) -> Iterator[Numbered]:
        self._has_ended = self._has_ended and num_done > 0
        if self._has_ended:
            return iter(())
        if self.repeated is not None:
            pairs = self.repeated.iter_from(num_done)
        else:
            pairs = itertools.chain(self._passes, self._end())  # begins the pass at the first datapoint
        return zip(itertools.repeat(0), pairs) if self._numbered is None else pairs

    def _end(self) -> Iterator[Datapoint]:
        self._has_ended = True
        yield from ()

    # The position ----------------------------------------------------------------------------------------------------
    def _pairs(self) -> Iterator[Numbered]:
        return itertools.chain.from_iterable(self.held.values()) if isinstance(self.held, dict) else iter(self.held)

    def _own_state(self) -> State:
        numbers = [number for number, _ in self._pairs()]
        own = {"tape": self._numbered.state(), "buffer": numbers, **super()._own_state()}
        return {**own, "has_ended": True} if self._has_ended else own

    def _restore_own_state(self, state: State) -> None:
        if "tape" not in state:  # earlier versions saved only this for BatchDataByShape
            state = {"tape": state}
        self._has_ended = "has_ended" in state
        read = self._numbered.read_again(state["tape"])
        self.held = self.arrange([(number, read[number]) for number in state.get("buffer", read)])
        super()._restore_own_state(state)
