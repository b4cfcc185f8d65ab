"""
Position of the data of an input, for a checkpoint.

Each datapoint gets a number, from 1 on, when it is read. Datapoints are used in this order, so the number
of those that were used tells a checkpoint which ones were used, and which were only read ahead. It contains the
newest snapshot of the DataFlow that is not after the last used datapoint.
After a resume, the few datapoints in between are replayed. The checkpoint also contains *witnesses*,
checksums of the datapoints that had been read ahead. They show whether the same datapoints come.
"""

from __future__ import annotations

import time
import zlib
from collections import deque
from itertools import chain, islice
from typing import Any, Deque, Dict, Iterator, NamedTuple, Sequence

import numpy as np

from ...dataflow.base import DataFlow, Datapoint
from ...dataflow.exact.checkpointable import find_difference
from ...dataflow.exact.stage_position import ResumeReport, State
from ...utils import logger
from ..stream import Stream

_SNAPSHOT_SECONDS = 1.0
_MAX_SNAPSHOTS = 256
_NUM_WITNESSES = 8
# elements of an array whose checksum is its witness; all of a large one would cost too much
_NUM_SAMPLED = 128


class _Snapshot(NamedTuple):
    number: int
    state: State


class DataPosition(Stream):
    """
    Numbers for the datapoints of a DataFlow that is repeated without end, and snapshots of its position.

    One thread iterates and calls `stamp`; another one may call `state`.

    Args:
        who: the input, for messages.
        flow: the DataFlow; `reset` resets it.
        saved: what `state` returned before; None to start from the beginning.
        is_strict: whether a datapoint that differs from its witness is an error.
        num_ahead: the maximum number of datapoints that are read ahead of training.

    Raises:
        ValueError: the stages of the DataFlow differ from those that were saved, and `is_strict`.
    """

    def __init__(self, who: str, flow: DataFlow, saved: State | None, is_strict: bool, num_ahead: int = 4096) -> None:
        difference = None if saved is None else find_difference(flow, saved["flow"])
        if difference is not None:
            message = f"{who}: the DataFlow differs from the one that was saved: {difference}."
            if is_strict:
                raise ValueError(message)
            logger.warning(f"{message} The data starts from the beginning.")
            saved = None
        super().__init__(flow, flow)
        self._who = who
        self._is_strict = is_strict
        self.start = 0 if saved is None else int(saved["used"])
        self._last = 0 if saved is None else int(saved["snapshot"])
        self._saved_flow = None if saved is None else saved["flow"]
        self._expected: Dict[int, Any] = {} if saved is None else {int(t): d for t, d in saved["witnesses"].items()}
        self._num_expected = len(self._expected)
        self._snapshots: Deque[_Snapshot] = deque()
        self._snapshot_due = 0.0
        self._used = 0  # at the last call of `state`
        self._recent: Deque[Any] = deque(maxlen=num_ahead)  # pairs (number, samples of its components)

    @property
    def last(self) -> int:
        """The number of the last datapoint that was read; 0 before the first."""
        return max(self._last, self.start)

    def reset(self) -> None:
        """Reset the DataFlow; it continues at the saved state, or starts from the beginning if it has no position."""
        self.flow.set_state(self._saved_flow)
        self.flow.reset_state()
        if any(report.level == "none" for report in self.flow.resume_report()):
            self._last, self._expected = self.start, {}
        self._take_snapshot()

    def leave_pass(self) -> None:
        """Leave the present pass: the next iteration begins a new one. What was read ahead counts as used."""
        self._read_again(iter(self.flow))
        self.start = self._last
        self._snapshots.clear()
        self._take_snapshot()

    def __iter__(self) -> Iterator[Datapoint]:
        """Iterate over the datapoints after the saved position. Call `stamp` for each before the next."""
        source = iter(self.flow)
        self._read_again(source)
        if self._saved_flow is None:
            return source
        first = list(islice(source, 1))
        self._compare_replayed()
        return chain(first, source)

    def _read_again(self, source: Iterator[Datapoint]) -> None:
        num_again = self.start - self._last
        if num_again <= 0:
            return
        begin = time.perf_counter()
        num_read = sum(1 for _ in islice(source, num_again))
        if num_read < num_again:
            raise RuntimeError(
                f"{self._who}: the data ends {num_again - num_read} datapoints before the saved position. The data has changed."
            )
        self._last = self.start
        seconds = time.perf_counter() - begin
        logger.info(f"{self._who}: {num_again} datapoints were replayed in {seconds:.1f} s.")

    def _compare_replayed(self) -> None:
        """Compare the datapoints of the open pass that a stage has replayed."""
        position = self.flow._stage_position
        different = None if position is None else position.find_different()
        if different is not None:
            stage = different.where.split(" > ")[-1]
            self._warn_or_raise(
                f"{self._who}: the replayed datapoints of {stage} differ from those before the checkpoint was saved. "
                f"Suspect {stage}"
            )

    def _warn_or_raise(self, finding: str) -> None:
        message = (
            f"{finding}: does it draw random numbers from elsewhere than self.rng, read a clock, or have the files changed? "
            "Run: tensorpack-lite resume-check"
        )
        if self._is_strict:
            raise RuntimeError(message)
        logger.warning(f"{message}. Training continues with these datapoints, which is not exact.")

    def stamp(self, arrays: Sequence[np.ndarray]) -> int:
        """
        Return the number of the datapoint that was read last, and compare it with its witness.

        Raises:
            RuntimeError: it differs from the one that was due, and `is_strict`.
        """
        self._last = number = self._last + 1
        samples = list(map(_sample, arrays))
        self._recent.append((number, samples))
        if self._expected and number in self._expected:
            self._compare(self._expected.pop(number), list(map(_checksum, samples)))
        if time.monotonic() > self._snapshot_due:
            self._take_snapshot()
        return number

    def _compare(self, expected: list[str], found: list[str]) -> None:
        if expected != found:
            self._expected = {}
            pairs = enumerate(zip(expected, found))
            names = [str(i) for i, (due, got) in pairs if due != got] or ["number"]
            reports = self.flow.resume_report()
            weak = next((r.stage for r in reports if r.level == "replay"), "the data itself")
            self._warn_or_raise(
                f"{self._who}: datapoint {self._last} is not the one that was due: component {', '.join(names)} differs from the "
                f"datapoint that was read before the checkpoint was saved. Suspect {weak}"
            )
        elif not self._expected:
            logger.info(f"{self._who}: the next {self._num_expected} datapoints are the ones that were due.")

    def state(self, used: int) -> State:
        """
        Return the position after a datapoint.

        Args:
            used: the number of the last datapoint that training has used.
        """
        snapshot = next(snapshot for snapshot in reversed(list(self._snapshots)) if snapshot.number <= used)
        self._used = used
        return {
            "used": used,
            "snapshot": snapshot.number,
            "flow": snapshot.state,
            "witnesses": self._witnesses_after(used),
        }

    def _witnesses_after(self, used: int) -> State:
        due = range(used + 1, used + 1 + _NUM_WITNESSES)
        witnesses = dict(self._expected)  # those that have not come yet stay
        for number, samples in list(self._recent):
            if number in due:
                witnesses[number] = list(map(_checksum, samples))
        return {str(number): witnesses[number] for number in due if number in witnesses}

    def state_now(self) -> State:
        """Return the position after the last datapoint that was read; for the thread that iterates."""
        self._take_snapshot()
        return self.state(self.last)

    def _take_snapshot(self) -> None:
        self._snapshots.append(_Snapshot(self._last, self.flow.get_state()))
        self._snapshot_due = time.monotonic() + _SNAPSHOT_SECONDS
        while len(self._snapshots) > 1 and self._snapshots[1].number <= self._used:
            self._snapshots.popleft()  # only here: another thread may be in `state`
        if len(self._snapshots) > _MAX_SNAPSHOTS:  # keep every second one of the older half
            snapshots = list(self._snapshots)
            self._snapshots = deque(snapshots[: _MAX_SNAPSHOTS // 2 : 2] + snapshots[_MAX_SNAPSHOTS // 2 :])


def _sample(array: np.ndarray) -> tuple[Any, ...]:
    """Return the dtype, the shape and copied elements of an array: some of a large one, all of a small one."""
    shape = array.shape
    if array.size > _NUM_SAMPLED:
        array = array.flat[:: array.size // _NUM_SAMPLED | 1]
    return array.dtype, shape, array.tolist() if array.dtype.hasobject else array.tobytes()


def _checksum(sample: tuple[Any, ...]) -> str:
    """Return the dtype, the shape and the CRC-32 of the elements. Computed only if a checkpoint needs it."""
    dtype, shape, content = sample
    content = content if isinstance(content, bytes) else repr(content).encode()
    return f"{dtype} {tuple(shape)} {zlib.crc32(content)}"


class DatasetPosition:
    """
    Position in a `tf.data.Dataset`. At a resume, all elements up to it are replayed.

    Args:
        who: the input, for the log.
        saved: what `state` returned before; None to start from the beginning.

    Attributes:
        start: the number of elements to pass over.
    """

    def __init__(self, who: str, saved: State | None) -> None:
        self.start = 0 if saved is None else int(saved["used"])
        if saved is not None:
            logger.info(f"{who}: {self.start} elements of the tf.data.Dataset are replayed.")

    def leave_pass(self) -> None:
        """Begin again at the first element."""
        self.start = 0

    def state(self, used: int) -> State:
        """Return the position after a number of elements."""
        return {"used": used}

    def resume_report(self) -> list[ResumeReport]:
        """Describe how a dataset is resumed."""
        reason = "all its elements up to the position are replayed, and not compared"
        return [ResumeReport("tf.data.Dataset", "replay", reason)]
