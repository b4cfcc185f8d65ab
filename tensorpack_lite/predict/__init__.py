"""
The tower function without the loop: from a checkpoint, or from a trainer's session, to outputs.

**In:** a tower function from tfutils or a ModelDesc, variables of a checkpoint, datapoints.
**Out:** predictors: functions from a datapoint to a list of arrays.
**Next:** the user's script.
"""

from .base import OfflinePredictor, OnlinePredictor, PredictorBase
from .concurrency import MultiThreadAsyncPredictor
from .config import PredictConfig
from .dataset import DatasetPredictorBase, MultiProcessDatasetPredictor, SimpleDatasetPredictor
from .feedfree import FeedfreePredictor
from .multigpu import DataParallelOfflinePredictor, MultiTowerOfflinePredictor

__all__ = [
    "DataParallelOfflinePredictor",
    "DatasetPredictorBase",
    "FeedfreePredictor",
    "MultiProcessDatasetPredictor",
    "MultiThreadAsyncPredictor",
    "MultiTowerOfflinePredictor",
    "OfflinePredictor",
    "OnlinePredictor",
    "PredictConfig",
    "PredictorBase",
    "SimpleDatasetPredictor",
]
