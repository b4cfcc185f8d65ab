"""
The part of a pipeline that runs in one thread, and which of its datapoints are timed.

One datapoint in N is timed. N is chosen so that the clocks cost less than 0.5 % of the time.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns

COST_NS = 3000  # of timing one stage for one datapoint
_SHARE = 0.005  # of the time that timing may cost
_MAX_INTERVAL = 10000  # datapoints
_FIRST_TIMED = 3  # the first datapoints fill buffers and open files


class PartTiming:
    """
    Stages that run one after the other in one thread.

    Attributes:
        due: the number of the next datapoint of the outermost stage that is timed.
        is_timing: whether a datapoint is being timed, in the thread `thread`.
        wall, cpu: while timing: the time of the nested calls that have ended.
        num_timed: while timing: the number of stages' datapoints that were timed.
        last: the number of the datapoint that was timed last, and the time after it, in nanoseconds.
    """

    __slots__ = ("cpu", "due", "is_timing", "last", "num_timed", "random", "thread", "wall")

    def __init__(self) -> None:
        self.due = _FIRST_TIMED
        self.is_timing = False
        self.thread = 0
        self.wall = self.cpu = self.num_timed = 0
        self.last = (0, perf_counter_ns())
        self.random = 1

    def begin(self) -> None:
        """Start to time a datapoint, in this thread."""
        self.thread = threading.get_ident()
        self.wall = self.cpu = self.num_timed = 0
        self.is_timing = True

    def end(self, count: int) -> None:
        """Stop timing after the datapoint `count`, and choose the next one."""
        self.is_timing = False
        # the mean since then, because a single datapoint may come from a buffer
        now, (last_count, last_time) = perf_counter_ns(), self.last
        mean = (now - last_time) / max(1, count - last_count)
        self.last = (count, now)
        interval = min(_MAX_INTERVAL, max(1, self.num_timed) * COST_NS / (_SHARE * max(mean, 1)))
        # not at regular distances, because pipelines have periods; and no draw from a generator of the user
        self.random = (1103515245 * self.random + 12345) % (1 << 31)
        self.due = count + 1 + int(interval * (0.5 + self.random / (1 << 31)))
