"""Address: the runners. They live in `runner_thread`."""

from __future__ import annotations

from .runner_thread import MultiThreadPrefetchData, MultiThreadRunner

__all__ = ["MultiThreadPrefetchData", "MultiThreadRunner"]
