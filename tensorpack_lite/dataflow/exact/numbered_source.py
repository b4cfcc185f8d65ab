"""
Numbered datapoints, for stages that hold some of them back: shuffle buffers, incomplete batches, datapoints in workers.

Such a stage does not save what it holds, which may be gigabytes. It saves *where that came from*: the numbers
of the datapoints, and the position of its source before the oldest of them. A resumed stage reads the source
from there, and keeps those that are listed. Datapoints that have been held for very long are saved
themselves, because reading so much again would take too long.
"""

from __future__ import annotations

import time
from collections import deque
from operator import itemgetter
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, NamedTuple, Tuple

import numpy as np

from ...utils.serialize import MsgpackSerializer
from ..base import DataFlow, Datapoint, ProxyDataFlow
from .stage_position import State

_SNAPSHOT_SECONDS = 1.0  # a snapshot takes up to a few milliseconds
_LONG = 10  # times the capacity of the stage
_MAX_SAVED_BYTES = 32 << 20
_MAX_SNAPSHOTS = 1000  # of which each has some kilobytes

Numbered = Tuple[int, Datapoint]


class _Snapshot(NamedTuple):
    number: int
    is_open: bool
    state: State
    left: List[int]  # the numbers after which a pass was left early, since then


class NumberedSource(ProxyDataFlow):
    """
    Numbered datapoints of all passes of a DataFlow, from 1 on, with snapshots of its position, about one per second.

    An iteration yields what is left of the open pass of `ds`, or a whole pass if none is open.

    Args:
        ds: a DataFlow that was reset and records its position. A restored one is at the snapshot of the saved state.
        held: returns the numbered datapoints that the stage holds back.
        capacity: the usual number of these.

    Attributes:
        number: the number of the last datapoint; 0 before the first.
    """

    def __init__(self, ds: DataFlow, held: Callable[[], Iterable[Numbered]], capacity: int) -> None:
        super().__init__(ds)
        self.number = 0
        self._held = held
        self._long = _LONG * capacity
        self._pass: Iterator[Datapoint] | None = None
        self._snapshots: Deque[_Snapshot] = deque()
        self._taken_at = 0.0

    def __iter__(self) -> Iterator[Numbered]:
        if self._pass is None:
            self._pass = iter(self.ds)
        while True:
            if time.monotonic() - self._taken_at > _SNAPSHOT_SECONDS:
                self._take_snapshot()
            try:
                datapoint = next(self._pass)
            except BaseException as error:  # whatever it is, it has ended the pass
                self._pass = None
                if isinstance(error, StopIteration):
                    return
                raise
            self.number += 1
            yield self.number, datapoint

    def rest(self) -> Iterator[Numbered]:
        """Return what is left of the open pass, which is nothing if none is open."""
        return iter(()) if self._pass is None else iter(self)

    def leave(self) -> None:
        """Leave the open pass, so that the next iteration begins a new one."""
        if self._pass is not None and self._snapshots:
            self._snapshots[-1].left.append(self.number)
        self._pass = None

    # Saving ----------------------------------------------------------------------------------------------------------
    def state(self) -> State:
        """Return what to save in addition to `source_state`."""
        held = self._sorted()
        if self._snapshots:
            self._drop_snapshots()
        else:
            self._take_snapshot()
        snapshot = self._snapshots[0]
        return {
            "snapshot": snapshot.number,
            "snapshot_is_open": snapshot.is_open,
            "number": self.number,
            "is_open": self._pass is not None,
            "left": [number for snapshot in self._snapshots for number in snapshot.left],
            "held": [number for number, _ in held if number > snapshot.number],
            "saved": {
                str(number): np.frombuffer(MsgpackSerializer.dumps(datapoint), np.uint8)
                for number, datapoint in held
                if number <= snapshot.number
            },
            "tuples": [n for n, datapoint in held if n <= snapshot.number and type(datapoint) is tuple],
        }

    def source_state(self) -> State:
        """Return the state of `ds` from which a resumed stage reads. Call it after `state`, which takes one if there is none."""
        return self._snapshots[0].state

    def _take_snapshot(self) -> None:
        self._snapshots.append(_Snapshot(self.number, self._pass is not None, self.ds.get_state(), []))
        self._taken_at = time.monotonic()
        self._drop_snapshots()
        if len(self._snapshots) > _MAX_SNAPSHOTS:
            self._thin_out()

    def _drop_snapshots(self) -> None:
        """Drop the snapshots before the newest one from which all held datapoints can be replayed."""
        held = self._sorted()
        num_saved = num_bytes = 0
        while num_saved < len(held) and held[num_saved][0] < self.number - self._long and _is_plain(held[num_saved][1]):
            num_bytes += _num_bytes(held[num_saved][1])
            if num_bytes > _MAX_SAVED_BYTES:
                break
            num_saved += 1
        oldest = held[num_saved][0] if num_saved < len(held) else self.number + 1
        while len(self._snapshots) > 1 and self._snapshots[1].number < oldest:
            self._snapshots.popleft()

    def _thin_out(self) -> None:
        """Drop every second snapshot, because a datapoint has been held for so long that there are many."""
        kept: Deque[_Snapshot] = deque()
        for index, snapshot in enumerate(self._snapshots):
            if index % 2 == 0:
                kept.append(snapshot)
            else:
                kept[-1].left.extend(snapshot.left)
        self._snapshots = kept

    def _sorted(self) -> list[Numbered]:
        return sorted(self._held(), key=itemgetter(0))  # datapoints cannot be compared

    # Resuming --------------------------------------------------------------------------------------------------------
    def read_again(self, saved: State) -> Dict[int, Datapoint]:
        """
        Read from the snapshot of a saved state up to its position, and return the datapoints that the stage held.

        Args:
            saved: what `state` returned.

        Returns:
            The datapoints by their numbers, oldest first.

        Raises:
            RuntimeError: the data has changed.
        """
        listed = set(saved["held"])
        held = {int(number): MsgpackSerializer.loads(bytes(content)) for number, content in saved["saved"].items()}
        held.update((number, tuple(held[number])) for number in saved.get("tuples", ()))
        held.update((number, datapoint) for number, datapoint in self.read_up_to(saved) if number in listed)
        return dict(sorted(held.items()))

    def read_up_to(self, saved: State) -> Iterator[Numbered]:
        """Yield the datapoints between the snapshot of a saved state and its position. They may span several passes."""
        self.number = saved["snapshot"]
        if saved["snapshot_is_open"]:
            self._pass = iter(self.ds)
        for number in saved.get("left", ()):  # earlier versions saved none
            yield from self._read_to(number, saved)
            self.leave()
        yield from self._read_to(saved["number"], saved)
        if saved["is_open"] and self._pass is None:
            self._pass = iter(self.ds)
        elif not saved["is_open"] and self._pass is not None:
            for _ in self:
                raise self._changed(saved)

    def _read_to(self, number: int, saved: State) -> Iterator[Numbered]:
        num_empty = 0
        while self.number < number:
            before = self.number
            for pair in self:
                yield pair
                if self.number == number:
                    break
            num_empty = num_empty + 1 if self.number == before else 0
            if num_empty == 2:  # one may be empty, if the snapshot was taken at the end of a pass
                raise self._changed(saved)

    def _changed(self, saved: State) -> RuntimeError:
        return RuntimeError(
            f"{type(self.ds).__name__}: the pass does not end after datapoint {saved['number']}, as it did when the position was "
            f"saved, but after {self.number}. The data has changed."
        )


def _is_plain(datapoint: Datapoint) -> bool:
    """Return whether a datapoint is equal, and of the same types, after it was saved in a checkpoint."""
    if type(datapoint) is dict:
        return all(type(key) in (str, int) for key in datapoint) and all(map(_is_plain_value, datapoint.values()))
    return type(datapoint) in (list, tuple) and all(map(_is_plain_value, datapoint))


def _is_plain_value(value: Any) -> bool:
    if type(value) is list:
        return all(map(_is_plain_value, value))
    if type(value) is np.ndarray or isinstance(value, np.generic):
        return not value.dtype.hasobject and value.dtype.names is None
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return value is None or type(value) in (bool, float, complex, str, bytes)


def _num_bytes(value: Any) -> int:
    if isinstance(value, (dict, list, tuple)):
        return sum(map(_num_bytes, value.values() if isinstance(value, dict) else value))
    return len(value) if isinstance(value, (str, bytes)) else getattr(value, "nbytes", 8)
