"""
Memory growth of a pipeline, in this process and all of its children.

In:  datapoints, which are dropped.
Out: how much the memory grew while they were taken.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import Any, Iterable, Optional

import psutil

_NUM_READINGS = 24
_FEWEST_READINGS = 9
_NOISE_MEGABYTES = 8  # an allocator may keep so much free memory
_NOISE_SHARE = 0.02


@dataclass(frozen=True)
class Growth:
    """
    Result of a measurement.

    Attributes:
        count: number of datapoints in the measurement.
        megabytes: resident memory of this process and its children at the end.
        grown_megabytes: growth of the memory, between medians of several readings.
    """

    count: int
    megabytes: float
    grown_megabytes: float

    @property
    def grows(self) -> bool:
        """Whether the memory grew by more than noise explains."""
        return self.grown_megabytes > max(_NOISE_MEGABYTES, _NOISE_SHARE * self.megabytes)


def measure_growth(datapoints: Iterable[Any], seconds: float) -> Optional[Growth]:
    """
    Take datapoints for some time, and read the memory at intervals.

    Args:
        datapoints: an endless iterable. Buffers and caches that are filled once should be full.
        seconds: duration; > 0.

    Returns:
        The result, or None if there were too few datapoints in that time.
    """
    this = psutil.Process(os.getpid())
    processes = [this, *this.children(recursive=True)]  # listing children takes long, so it is done once
    readings = []
    begin, interval = time.perf_counter(), seconds / _NUM_READINGS
    due = begin + interval
    for count, _ in enumerate(datapoints, 1):
        now = time.perf_counter()
        if now < due:
            continue
        readings.append((count, _resident_megabytes(processes)))
        due = now + interval
        if len(readings) == _NUM_READINGS or now - begin > 2 * seconds:
            break
    readings = readings[len(readings) // 4 :]  # the first part is warm-up
    if len(readings) < _FEWEST_READINGS:
        return None
    third = len(readings) // 3
    before, after = readings[:third], readings[-third:]
    grown = statistics.median(m for _, m in after) - statistics.median(m for _, m in before)
    return Growth(after[third // 2][0] - before[third // 2][0], after[-1][1], grown)


def _resident_megabytes(processes: list[psutil.Process]) -> float:
    total = 0
    for process in processes:
        try:
            memory = process.memory_info()
            # shared memory is not counted: it is reused, and fills up with the first datapoints
            total += memory.rss - getattr(memory, "shared", 0)
        except psutil.NoSuchProcess:  # the process has ended
            continue
    return total / 1e6
