"""Names of tensorpack's `dataflow.parallel_map`, defined in map_thread, map_process and map_and_batch."""

from __future__ import annotations

from .map_and_batch import MultiProcessMapAndBatchData, MultiProcessMapAndBatchDataZMQ
from .map_process import MultiProcessMapData, MultiProcessMapDataZMQ
from .map_thread import MultiThreadMapData

__all__ = [
    "MultiProcessMapAndBatchData", "MultiProcessMapAndBatchDataZMQ", "MultiProcessMapData",
    "MultiProcessMapDataZMQ", "MultiThreadMapData",
]  # fmt: skip
