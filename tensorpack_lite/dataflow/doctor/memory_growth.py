"""
Does a pipeline's memory grow: of this process and all of its children, while datapoints are taken and dropped.

In:  datapoints.
Out: how much more memory is held after them than before.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from typing import Any, Iterable, Optional

import psutil

__all__ = ["Growth", "measure_growth"]

_NUM_READINGS = 24
_FEWEST_READINGS = 9
_NOISE_MEGABYTES = 8  # what an allocator may keep for itself
_NOISE_SHARE = 0.02


@dataclass(frozen=True)
class Growth:
    """
    What was measured.

    Attributes:
        count: datapoints between the beginning and the end of the measurement.
        megabytes: resident memory at the end, of this process and its children.
        grown_megabytes: by how much it grew in between; from medians of several readings.
    """

    count: int
    megabytes: float
    grown_megabytes: float

    @property
    def grows(self) -> bool:
        """More than what noise explains."""
        return self.grown_megabytes > max(_NOISE_MEGABYTES, _NOISE_SHARE * self.megabytes)


def measure_growth(datapoints: Iterable[Any], seconds: float) -> Optional[Growth]:
    """
    Take datapoints for a while, and read the memory now and then.

    Args:
        datapoints: without end, and warm: what is filled once should be full.
        seconds: how long; > 0.

    Returns:
        What was measured; None if there were too few datapoints in that time.
    """
    this = psutil.Process(os.getpid())
    processes = [this, *this.children(recursive=True)]  # asked once: it takes long
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
    readings = readings[len(readings) // 4 :]  # the first part still warms up
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
            # shared memory is taken once and used again; it fills up while the first datapoints pass
            total += memory.rss - getattr(memory, "shared", 0)
        except psutil.NoSuchProcess:  # it ended meanwhile
            continue
    return total / 1e6
