"""Names of tensorpack's `dataflow.parallel`, defined in runner and runner_thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils.missing_names import explain_missing_names
from .runner import MultiProcessPrefetchData, MultiProcessRunner, MultiProcessRunnerZMQ, PrefetchData, PrefetchDataZMQ
from .runner_thread import MultiThreadPrefetchData, MultiThreadRunner

__all__ = [
    "MultiProcessPrefetchData", "MultiProcessRunner", "MultiProcessRunnerZMQ", "MultiThreadPrefetchData",
    "MultiThreadRunner", "PrefetchData", "PrefetchDataZMQ",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)
