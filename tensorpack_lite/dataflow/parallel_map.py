"""Address: the maps with workers. They live in `map_thread`."""

from __future__ import annotations

from .map_thread import MultiThreadMapData

__all__ = ["MultiThreadMapData"]
