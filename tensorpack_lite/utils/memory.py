"""Main memory that this process can still use."""

from __future__ import annotations

import os

import psutil

__all__ = ["available_memory"]

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
    available = int(psutil.virtual_memory().available)
    for names in _CONTAINERS:
        try:
            limit, usage, statistics = (_read(os.path.join(root, name)) for name in names)
            cached = dict(line.split() for line in statistics.splitlines()).get("inactive_file", "0")
            available = min(available, int(limit) - int(usage) + int(cached))
        except (OSError, ValueError):  # another version, or the limit is "max"
            continue
    return max(available, 0)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read().strip()
