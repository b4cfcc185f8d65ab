"""
Predictors: call the tower function with datapoints, without a training loop; and export of models.

**In:** a tower function from tfutils or a ModelDesc, variables of a checkpoint, datapoints.
**Out:** predictors, which take a datapoint and return a list of arrays; files with a model to serve.
**Next:** the user's script.
"""

from typing import TYPE_CHECKING

from ..utils.missing_names import explain_missing_names
from .base import OfflinePredictor, OnlinePredictor, PredictorBase
from .concurrency import MultiThreadAsyncPredictor
from .config import PredictConfig
from .dataset import DatasetPredictorBase, MultiProcessDatasetPredictor, SimpleDatasetPredictor
from .feedfree import FeedfreePredictor
from .multigpu import DataParallelOfflinePredictor, MultiTowerOfflinePredictor

__all__ = [
    "DataParallelOfflinePredictor", "DatasetPredictorBase", "FeedfreePredictor",
    "MultiProcessDatasetPredictor", "MultiThreadAsyncPredictor", "MultiTowerOfflinePredictor",
    "OfflinePredictor", "OnlinePredictor", "PredictConfig", "PredictorBase", "SimpleDatasetPredictor",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)
