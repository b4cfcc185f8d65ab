"""The number of CPU cores that a process may use."""

from __future__ import annotations

import os

from .process_state import read_text

_CGROUP = "/sys/fs/cgroup"


def usable_cores() -> float:
    """Return how many cores this process may use: those of its affinity, or less by the quota of its cgroup."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return min(float(len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1), _quota())


def _quota(directory: str = _CGROUP) -> float:
    """Return the number of cores in the quota of the cgroup, of version 2 or 1; infinity without one."""
    words = read_text(f"{directory}/cpu.max").split()
    if not words:
        words = [read_text(f"{directory}/cpu/cpu.cfs_{name}_us") for name in ("quota", "period")]
    try:
        quota = int(words[0]) / int(words[1])
    except (ValueError, IndexError):
        return float("inf")
    return quota if quota > 0 else float("inf")
