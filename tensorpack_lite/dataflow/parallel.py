"""Names of tensorpack's `dataflow.parallel`, defined in runner and runner_thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils.old_names import old_name_finder
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

if not TYPE_CHECKING:  # old names, for `tensorpack-lite run`
    __getattr__ = old_name_finder(__name__)
