"""
Runners whose position is recorded: workers that are asked in turn, and send their positions.

Each worker sends a `Position` before its first datapoint, and about one per second between datapoints. The
position of the runner is, for each worker, the last one that arrived, how many datapoints were yielded since,
and whose turn it is. A resumed worker begins at its position, makes those datapoints again, and drops them.
"""

from __future__ import annotations

import time
from collections import deque
from itertools import islice
from typing import Any, Callable, Deque, Iterator, List, NamedTuple, Tuple, Union

from ..base import DataFlow, Datapoint, length_or_none, require_workers
from ..repeat import RepeatedData
from .stage_position import ResumeReport, State

_SNAPSHOT_SECONDS = 1.0

WorkerState = Tuple[Union[State, None], int]  # a position, and the number of datapoints after it


class Position(NamedTuple):
    """
    The position of a worker, among its datapoints.

    Attributes:
        state: that of its DataFlow, repeated without end.
        reports: how the stages of its DataFlow are resumed.
    """

    state: State
    reports: List[ResumeReport]


def begin_at(ds: DataFlow, state: State | None) -> RepeatedData:
    """
    Reset a DataFlow at a saved position.

    Args:
        ds: the DataFlow.
        state: that of a `Position`; None to start from the beginning.

    Returns:
        The DataFlow, repeated without end.
    """
    repeated = RepeatedData(ds, -1)
    repeated.set_state(state)
    repeated.reset_state()
    return repeated


def run_and_report(repeated: RepeatedData, num_dropped: int) -> Iterator[list[Any]]:
    """
    Yield the datapoints and positions of a worker, without end.

    Args:
        repeated: result of `begin_at`.
        num_dropped: how many datapoints to drop first.

    Yields:
        Lists of one datapoint or `Position`.
    """
    own, *reports = repeated.resume_report()
    if own.level == "none":  # the stage below it is not a DataFlow
        reports.insert(0, own)
    datapoints = iter(repeated)
    for _ in islice(datapoints, num_dropped):
        pass
    yield [Position(repeated.get_state(), reports)]
    taken_at = time.monotonic()
    for datapoint in datapoints:
        yield [datapoint]
        if time.monotonic() - taken_at > _SNAPSHOT_SECONDS:
            yield [Position(repeated.get_state(), reports)]
            taken_at = time.monotonic()


def run_in_worker(ds: DataFlow, state: State | None, num_dropped: int) -> Iterator[list[Any]]:
    """Reset a DataFlow at a saved position, and yield as `run_and_report`; runs in a worker process, as a `Task`."""
    yield from run_and_report(begin_at(ds, state), num_dropped)


def states_to_restore(who: str, num_worker: int, saved: State | None) -> list[WorkerState]:
    """
    Return where each worker begins.

    Args:
        who: the runner, for the error message.
        num_worker: number of workers.
        saved: what `WorkersInTurn.state` returned; None to start from the beginning.

    Raises:
        ValueError: the number of workers was another one. Each worker has its own position and random stream.
    """
    if saved is None:
        return [(None, 0)] * num_worker
    if len(saved["workers"]) != num_worker:
        raise ValueError(
            f"{who}: the saved position is that of {len(saved['workers'])} workers, but it has {num_worker} now. Each worker "
            "has its own position, so their number must stay the same."
        )
    return [(worker["state"], worker["num_given"]) for worker in saved["workers"]]


class EndlessRunner(DataFlow):
    """
    Base class for runners. All passes read one endless stream, so a pass continues where the last one stopped.

    A subclass defines `_stream`, and sets `_owner` in `reset_state`; and `_in_turn`, if the position is recorded.
    """

    _stream: Callable[[], Iterator[Datapoint]]  # yields the datapoints of all workers as they arrive
    _owner: int | None = None  # pid of the process that started the workers
    _in_turn: WorkersInTurn | None = None

    def __iter__(self) -> Iterator[Datapoint]:
        return self.iter_from(0)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the next datapoints of the stream."""
        require_workers(self, self._owner)
        # a pass has no end if the length is unknown or 0
        length = length_or_none(self) or None
        stream = self._stream() if self._in_turn is None else self._in_turn.stream()
        return islice(stream, None if length is None else max(0, length - num_done))

    def _own_state(self) -> State:
        return {} if self._in_turn is None else self._in_turn.state()

    def _reports_read(self) -> list[ResumeReport]:
        return [] if self._in_turn is None else self._in_turn.reports()

    def _leave(self) -> None:
        """Passes read one stream, so there is nothing to leave."""


class WorkersInTurn:
    """
    The datapoints of several workers, one of each in turn.

    Args:
        num_worker: number of workers, which send what `run_and_report` yields.
        receive: waits for the next message of a worker, and returns its content.
        saved: what `state` returned; None to start from the beginning.
    """

    def __init__(self, num_worker: int, receive: Callable[[int], list[Any]], saved: State | None) -> None:
        self._receive = receive
        self._turn = 0 if saved is None else saved["turn"]
        self._received: List[Deque[Any]] = [deque() for _ in range(num_worker)]
        self._states = states_to_restore("WorkersInTurn", num_worker, saved)
        self._reports: List[ResumeReport] = []

    def stream(self) -> Iterator[Datapoint]:
        """Yield datapoints without end."""
        while True:
            index = self._turn
            self._take_positions(index)
            datapoint = self._received[index].popleft()
            state, num_given = self._states[index]
            self._states[index] = state, num_given + 1
            self._turn = (index + 1) % len(self._received)
            yield datapoint

    def wait(self) -> None:
        """Wait until all workers have begun."""
        for index, received in enumerate(self._received):
            if not received:
                received.extend(self._receive(index))

    def state(self) -> State:
        """Return the position."""
        for index, (state, _) in enumerate(self._states):
            if state is None:
                self._take_positions(index)
        workers = [{"state": state, "num_given": num_given} for state, num_given in self._states]
        return {"turn": self._turn, "workers": workers}

    def reports(self) -> list[ResumeReport]:
        """Return how the stages in the first worker are resumed."""
        if not self._reports:
            self._take_positions(0)
        return self._reports

    def _take_positions(self, index: int) -> None:
        """Take the positions that come before the next datapoint of a worker, which is then the first that was received."""
        received = self._received[index]
        while True:
            while not received:
                received.extend(self._receive(index))
            if type(received[0]) is not Position:
                return
            position = received.popleft()
            self._states[index] = position.state, 0
            self._reports = self._reports or position.reports
