"""The CPU time that a process gets, and what other programs use."""

from __future__ import annotations

import os
from typing import NamedTuple

import psutil

from ...utils.process_state import read_text

_CONTENTION = 0.25  # share of the waiting for a core in the CPU time
_MIN_DELAYED = 0.1  # mean number of threads that wait for a core
_MIN_OTHERS = 0.1  # mean number of cores that other programs use
_BUSY = ("nice", "irq", "softirq", "steal")  # besides user and system, where the system has them


class CpuTimes(NamedTuple):
    """
    Times in seconds, up to a moment.

    Attributes:
        used: CPU time of this process and its descendants.
        delayed: how long their threads were ready to run, but waited for a core; 0 if the system does not say.
        others: CPU time of all other programs, and what a hypervisor has taken.
    """

    used: float
    delayed: float
    others: float

    def __sub__(self, earlier: CpuTimes) -> CpuTimes:
        """Return the times since an earlier moment."""
        return CpuTimes(*(max(0.0, now - then) for now, then in zip(self, earlier)))

    def plus(self, more: CpuTimes) -> CpuTimes:
        """Return the sums."""
        return CpuTimes(*(time + two for time, two in zip(self, more)))

    def is_contended(self, seconds: float) -> bool:
        """
        Return whether threads often wait for a core because of other programs.

        Args:
            seconds: the period in which these times passed.
        """
        is_delayed = self.delayed > max(_CONTENTION * self.used, _MIN_DELAYED * seconds)
        return is_delayed and self.others > _MIN_OTHERS * seconds


def cpu_times() -> CpuTimes:
    """Return the times of this process and its descendants so far."""
    me = psutil.Process()
    used = delayed = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # it has ended
        used += times.user + times.system
        delayed += _delay(process.pid)
    machine = psutil.cpu_times()
    busy = machine.user + machine.system + sum(getattr(machine, name, 0.0) for name in _BUSY)
    return CpuTimes(used, delayed, busy - used)


def _delay(pid: int) -> float:
    """Return the seconds that the threads of a process have waited for a core."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0
    words = [read_text(f"/proc/{pid}/task/{thread}/schedstat").split() for thread in threads]
    return sum(int(line[1]) for line in words if len(line) == 3) / 1e9
