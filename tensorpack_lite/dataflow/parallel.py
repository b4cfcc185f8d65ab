"""Address: the runners. They live in `runner` and `runner_thread`."""

from __future__ import annotations

from .runner import (
    MultiProcessPrefetchData,
    MultiProcessRunner,
    MultiProcessRunnerZMQ,
    PrefetchData,
    PrefetchDataZMQ,
)
from .runner_thread import MultiThreadPrefetchData, MultiThreadRunner

__all__ = [
    "MultiProcessPrefetchData",
    "MultiProcessRunner",
    "MultiProcessRunnerZMQ",
    "MultiThreadPrefetchData",
    "MultiThreadRunner",
    "PrefetchData",
    "PrefetchDataZMQ",
]
