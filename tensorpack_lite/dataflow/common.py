"""Names of tensorpack's `dataflow.common`, defined in batch, inspect_data, mapping, mix, repeat and shuffle."""

from __future__ import annotations

from .batch import BatchData, BatchDataByShape
from .inspect_data import PrintData, TestDataSpeed
from .mapping import MapData, MapDataComponent, SelectComponent
from .mix import ConcatData, JoinData, RandomChooseData, RandomMixData
from .repeat import FixedSizeData, RepeatedData, RepeatedDataPoint
from .shuffle import CacheData, LocallyShuffleData

__all__ = ["BatchData", "BatchDataByShape", "CacheData", "ConcatData", "FixedSizeData", "JoinData", "LocallyShuffleData", "MapData", "MapDataComponent", "PrintData", "RandomChooseData", "RandomMixData", "RepeatedData", "RepeatedDataPoint", "SelectComponent", "TestDataSpeed"]  # fmt: skip
