"""
Loading and preprocessing of data, before it enters the graph. This package does not use TensorFlow.

**In:** files, arrays or generators.
**Out:** datapoints, one at a time; each is a list or a dict of arrays.
**Next:** input_source, which feeds datapoints into the graph.

A pipeline is a DataFlow wrapped in others; `base.py` defines the interface. Start with `DataFromList`,
`DataFromGenerator` or your own class, and end with `BatchData`::

    df = DataFromList(files)
    df = MapData(df, read_and_crop)
    df = BatchData(df, 32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils.missing_names import explain_missing_names
from . import dataset, imgaug
from .base import DataFlow, DataFlowTerminated, ProxyDataFlow, RNGDataFlow
from .batch import BatchData, BatchDataByShape
from .format import CaffeLMDB, HDF5Data, LMDBData, LMDBDataDecoder, SVMLightData
from .image import AugmentImageComponent, AugmentImageComponents, AugmentImageCoordinates, ImageFromFile
from .inspect_data import PrintData, TestDataSpeed
from .map_and_batch import MultiProcessMapAndBatchData, MultiProcessMapAndBatchDataZMQ
from .map_process import MultiProcessMapData, MultiProcessMapDataZMQ
from .map_thread import MultiThreadMapData
from .mapping import MapData, MapDataComponent, SelectComponent
from .mix import ConcatData, JoinData, RandomChooseData, RandomMixData
from .raw import DataFromGenerator, DataFromIterable, DataFromList, DataFromQueue, FakeData
from .remote import RemoteDataZMQ, send_dataflow_zmq
from .repeat import FixedSizeData, RepeatedData, RepeatedDataPoint
from .runner import MultiProcessPrefetchData, MultiProcessRunner, MultiProcessRunnerZMQ, PrefetchData, PrefetchDataZMQ
from .runner_thread import MultiThreadPrefetchData, MultiThreadRunner
from .serialize import HDF5Serializer, LMDBSerializer, NumpySerializer, TFRecordSerializer
from .shard import ShardData
from .shuffle import CacheData, LocallyShuffleData

__all__ = [
    "AugmentImageComponent", "AugmentImageComponents", "AugmentImageCoordinates", "BatchData",
    "BatchDataByShape", "CacheData", "CaffeLMDB", "ConcatData", "DataFlow", "DataFlowTerminated",
    "DataFromGenerator", "DataFromIterable", "DataFromList", "DataFromQueue", "FakeData", "FixedSizeData",
    "HDF5Data", "HDF5Serializer", "ImageFromFile", "JoinData", "LMDBData", "LMDBDataDecoder",
    "LMDBSerializer", "LocallyShuffleData", "MapData", "MapDataComponent", "MultiProcessMapAndBatchData",
    "MultiProcessMapAndBatchDataZMQ", "MultiProcessMapData", "MultiProcessMapDataZMQ",
    "MultiProcessPrefetchData", "MultiProcessRunner", "MultiProcessRunnerZMQ", "MultiThreadMapData",
    "MultiThreadPrefetchData", "MultiThreadRunner", "NumpySerializer", "PrefetchData", "PrefetchDataZMQ",
    "PrintData", "ProxyDataFlow", "RNGDataFlow", "RandomChooseData", "RandomMixData", "RemoteDataZMQ",
    "RepeatedData", "RepeatedDataPoint", "SVMLightData", "SelectComponent", "ShardData", "TFRecordSerializer",
    "TestDataSpeed", "dataset", "imgaug", "send_dataflow_zmq",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)
