"""Main memory: what processes use, and what this process can still use."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import Sequence

import psutil

from .process_state import read_text

_SCARCE = 0.02  # of the whole

# the limit, the usage, and the statistics of a container, for version 2 and version 1 of Linux' control groups
_CONTAINERS = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)


def available_memory(root: str = "/sys/fs/cgroup") -> int:
    """
    Return the number of bytes that can be allocated without swapping, and within the limit of the container.

    Args:
        root: the directory where Linux shows the limits of the container.
    """
    return _available_and_total(root)[0]


def peak_memory() -> int:
    """Return the largest number of bytes of main memory that this process has used at a time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def describe_shortage(root: str = "/sys/fs/cgroup", shared: str = "/dev/shm") -> str:
    """
    Say whether main memory or the file system for shared memory is nearly full.

    Args:
        root: the directory where Linux shows the limits of the container.
        shared: the directory of shared memory.

    Returns:
        One or two sentences; "" if less than 98 % of both is used.
    """
    available, total = _available_and_total(root)
    sentences = []
    if available < _SCARCE * total:
        sentences.append(f"Memory is nearly full: {available >> 20} of {total >> 20} MB are available.")
    with suppress(OSError):  # not on this system
        found = os.statvfs(shared)
        if found.f_bavail < _SCARCE * found.f_blocks:
            size = found.f_blocks * found.f_frsize >> 20
            sentences.append(f"{shared} is full: {found.f_bavail * found.f_frsize >> 20} of {size} MB are free.")
    return " ".join(sentences)


def _available_and_total(root: str) -> tuple[int, int]:
    memory = psutil.virtual_memory()
    available, total = int(memory.available), int(memory.total)
    for names in _CONTAINERS:
        try:
            limit, usage, statistics = (read_text(os.path.join(root, name)) for name in names)
            cached = dict(line.split() for line in statistics.splitlines()).get("inactive_file", "0")
            available = min(available, int(limit) - int(usage) + int(cached))
            total = min(total, int(limit))
        except ValueError:  # another version, or the limit is "max"
            continue
    return max(available, 0), total


def unshared_memory(pids: Sequence[int]) -> int:
    """
    Return the bytes that one of several processes uses and does not share, on average; 0 if the system does not say.

    Args:
        pids: of the processes. Those that have ended are omitted.
    """
    sizes = []
    for pid in pids:
        try:
            sizes.append(int(psutil.Process(pid).memory_full_info().uss))
        except psutil.Error:  # it has ended, or belongs to another user
            continue
    return sum(sizes) // len(sizes) if sizes else 0
