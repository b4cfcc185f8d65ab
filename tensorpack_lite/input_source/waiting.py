"""
Waiting times of runs for their data in a queue, computed afterwards without any cost in the run.

The thread that enqueues notes when each element was in the queue. A queue is first in, first out, and the fetches of a
run tell how many elements it takes. So the number of its last element is known, and the run waited from its start
until that element arrived.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter_ns
from typing import Any, Deque, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..loop.session import RunTimes
from ..loop.step import Step
from ..tfutils.dependency import dependency_of_fetches

__all__ = ["QueueWaits"]

_MAX_STEPS = 128  # combinations of fetches whose number of elements is remembered


class QueueWaits:
    """
    Waiting times of runs that take from a queue.

    It does not know them, and `waited` returns None, if the queue is not first in, first out, if it is smaller than
    what is enqueued at once, or if others take from it, too.

    Args:
        queue: a TensorFlow queue.
        num_in_datapoint: number of elements that a tower takes.
        max_chunk: maximum number of elements that are enqueued at once.
    """

    def __init__(self, queue: tf.QueueBase, num_in_datapoint: int, max_chunk: int) -> None:
        self._can_be_known = queue.queue_ref.op.type == "FIFOQueueV2" and _has_room(queue, max_chunk)
        self._num_in_datapoint = num_in_datapoint
        self._max_chunk = max_chunk
        self._towers: list[tf.Operation] = []
        self._num_in_step: dict[Step, int] = {}
        self.begin_anew()

    def add_tower(self, dequeue: tf.Operation) -> None:
        """Add the operation by which a tower takes its datapoint."""
        self._towers.append(dequeue)

    def begin_anew(self) -> None:
        """Begin with an empty queue and a new thread that enqueues."""
        self._is_known = self._can_be_known
        self._num_taken = 0
        self._begin = perf_counter_ns()

    def count_taken(self, num: int) -> None:
        """Count datapoints that a run outside of the hooked session took."""
        self._num_taken += num * self._num_in_datapoint

    def count_runs(self, steps: Sequence[Step], since: int) -> None:
        """
        Count the elements that runs took whose times were not recorded.

        Args:
            steps: what they ran.
            since: when the first of them may have begun, in nanoseconds.
        """
        if since < self._begin:
            self._is_known = False  # until it begins anew again: it is not known which of them came before
        for step, num in Counter(steps).items():
            self._num_taken += num * self._num_taken_by(step)

    def waited(self, runs: RunTimes, arrivals: Deque[tuple[int, int]], queue_size: int) -> np.ndarray | None:
        """
        Return how long each run waited.

        Args:
            runs: all runs since the last call.
            arrivals: how many elements had arrived at which time, in order. Those that are no longer needed are removed.
            queue_size: present size of the queue.

        Returns:
            Nanoseconds; NaN for runs before `begin_anew`, and for those whose datapoint arrived too long ago. Zero
            for runs that take nothing.
        """
        while len(arrivals) > 1 and arrivals[0][0] <= self._num_taken:
            arrivals.popleft()
        counts, times = np.array([(0, 0), *tuple(arrivals)], np.int64).T
        started, ended = runs.started, runs.ended
        num_taken_by = {step: self._num_taken_by(step) for step in set(runs.steps)}
        num = np.array([num_taken_by[step] for step in runs.steps], np.int64)
        num[started < self._begin] = 0
        last = self._num_taken + np.cumsum(num)
        self._num_taken = int(last[-1]) if len(last) else self._num_taken
        surplus = int(counts[-1]) - queue_size - self._num_taken
        # the run of the present step is not among them
        if abs(surplus) > 2 * self._max_chunk + 2 * num.max(initial=0):
            self._is_known = False
        if not self._is_known:
            return None
        index = np.searchsorted(counts, last)
        in_queue = np.append(times, 0)[index]
        in_queue = np.where(
            index == len(times), ended, in_queue
        )  # the call that enqueued has not returned yet
        waits = np.clip(in_queue - started, 0, ended - started).astype(float)
        waits[num == 0] = 0.0
        too_old = (index == 1) & (last <= counts[min(1, len(counts) - 1)] - self._max_chunk)
        waits[too_old | (started < self._begin)] = np.nan
        return waits

    def _num_taken_by(self, step: Step) -> int:
        if step not in self._num_in_step:
            if len(self._num_in_step) >= _MAX_STEPS:
                self._num_in_step.clear()
            num = sum(dependency_of_fetches(step.fetches, tower) for tower in self._towers)
            self._num_in_step[step] = num * self._num_in_datapoint
        return self._num_in_step[step]


def _has_room(queue: Any, max_chunk: int) -> bool:
    capacity = queue.queue_ref.op.get_attr("capacity")
    return bool(capacity < 0 or capacity >= max_chunk)
