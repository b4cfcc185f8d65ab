"""Names of tensorpack's `dataflow.prefetch`, the first name of `dataflow.parallel`."""

from __future__ import annotations

from .runner import MultiProcessPrefetchData, PrefetchData, PrefetchDataZMQ
from .runner_thread import MultiThreadPrefetchData

__all__ = ["MultiProcessPrefetchData", "MultiThreadPrefetchData", "PrefetchData", "PrefetchDataZMQ"]
