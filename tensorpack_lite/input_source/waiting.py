"""
Waiting times of runs for their data in a queue, computed afterwards without any cost in the run.

The thread that enqueues tells when each element was in the queue. A queue is first in, first out, and the fetches of a
run tell how many elements it takes. So the number of its last element is known, and the run waited from its start
until that element arrived.
"""

from __future__ import annotations

from math import inf
from time import perf_counter_ns, sleep
from typing import Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..dataflow.records import STATE_WORDS, WAITS_FOR_ROOM
from ..loop.step import Step
from ..tfutils.dependency import dependency_of_fetches
from .queueing import QueueInput

_MAX_CALLS = 10  # that return while elements are counted
_MAX_TRIES = 2000  # a second; on full cores, a thread may be without a core for some ten milliseconds
_SECONDS_OF_A_CALL = 5e-4


class QueueWaits:
    """
    Waiting times of runs that take from the queue of an input, from now on until `waited` is called.

    They are not known if the queue is not first in, first out, if it is smaller than what is enqueued at once, if others
    take from it, too, if its thread was replaced, or if another object already measures.

    Args:
        source: a QueueInput whose thread runs. There is a default session.
    """

    def __init__(self, source: QueueInput) -> None:
        self._source, self._thread = source, source.thread
        self._max_chunk = source._ops.max_chunk
        self._room = _capacity(source.queue) - self._max_chunk
        self._can_be_known = self._room >= 0 and self._thread.on_enqueued is None
        self._arrivals: list[tuple[int, int]] = []
        if self._can_be_known:
            self._thread.on_enqueued = self._note
        self._num_enqueued, self._num_taken = self._count()

    def _note(self, num: int) -> None:
        self._arrivals.append((num, perf_counter_ns()))

    def _count(self) -> tuple[int, int]:
        """
        Return how many elements were enqueued, and taken.

        Both are counted while no call enqueues. A call that waits for a core is waited for: with StagingInput, a run often ends
        before the call that has enqueued its element returns. If a call waits for room, or calls follow each other, the second
        number is too small. Then training does not wait for data, so that this does not matter.
        """
        num, was_in_call = self._enqueued()
        num_calls = 0
        for _ in range(_MAX_TRIES):
            size = int(tf.get_default_session().run(self._source._ops.size))
            num_before, (num, is_in_call) = num, self._enqueued()
            if num == num_before and not was_in_call and not is_in_call:
                return num, num - size
            num_calls += num != num_before
            if size > self._room or num_calls == _MAX_CALLS:
                break
            was_in_call = is_in_call
            sleep(_SECONDS_OF_A_CALL)
        return num_before, num_before - size

    def _enqueued(self) -> tuple[int, bool]:
        reading = self._thread.enqueuing.read()
        return reading.count, reading.state == STATE_WORDS[WAITS_FOR_ROOM]

    def waited(self, started: np.ndarray, ended: np.ndarray, steps: Sequence[Step]) -> np.ndarray | None:
        """
        Return how long each run waited, and stop measuring.

        Args:
            started, ended: of all runs since this object was created, in nanoseconds of `time.perf_counter_ns`.
            steps: what they ran.

        Returns:
            Nanoseconds, zero for runs that take nothing; None if they are not known.
        """
        if not self._can_be_known:
            return None
        _, num_taken_at_end = self._count()
        self._thread.on_enqueued = None
        num_taken_by = {step: self._num_taken_by(step) for step in set(steps)}
        num = np.array([num_taken_by[step] for step in steps], np.int64)
        num_taken = num_taken_at_end - int(num.sum())
        is_alone = abs(num_taken - self._num_taken) <= 2 * self._max_chunk
        if not is_alone or self._source.thread is not self._thread:
            return None
        # each of the two is too small if it was counted while a call waited for room
        last = max(num_taken, self._num_taken) + np.cumsum(num)
        arrivals = [arrival for arrival in self._arrivals if arrival[0] > self._num_enqueued]
        counts, times = np.array([(self._num_enqueued, 0), *arrivals], np.int64).T
        index = np.searchsorted(counts, last)
        # the call that enqueued may not have returned yet
        in_queue = np.where(index == len(times), ended, np.append(times, 0)[index])
        waits = np.clip(in_queue - started, 0, ended - started).astype(float)
        waits[num == 0] = 0.0
        return waits

    def _num_taken_by(self, step: Step) -> int:
        takes = [op for op in self._source.queue.queue_ref.consumers() if "Dequeue" in op.type]
        num_towers = sum(dependency_of_fetches(step.fetches, op) for op in takes)
        return num_towers * self._source._num_in_datapoint


def _capacity(queue: tf.QueueBase) -> float:
    """Return the number of elements for which a queue has room; -1 if it is not first in, first out."""
    operation = queue.queue_ref.op
    if operation.type != "FIFOQueueV2":
        return -1
    capacity = int(operation.get_attr("capacity"))
    return inf if capacity < 0 else capacity
