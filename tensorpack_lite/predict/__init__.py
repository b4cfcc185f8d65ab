"""
The tower function without the loop: from a checkpoint, or from a trainer's session, to outputs.

**In:** a tower function from tfutils or a ModelDesc, variables of a checkpoint, datapoints.
**Out:** predictors: functions from a datapoint to a list of arrays.
**Next:** the user's script.
"""

from .base import OfflinePredictor, OnlinePredictor, PredictorBase
from .config import PredictConfig

__all__ = ["OfflinePredictor", "OnlinePredictor", "PredictConfig", "PredictorBase"]
