"""
Towers: copies of a model, built by calling one function under a context.

**In:** the user's function and the tensors of one tower, from input_source.
**Out:** `TowerContext` (who am I), `TowerFunc` (build, and remember), handles (look inside).
**Next:** graph_builder, which calls a tower function once per device and takes gradients.
"""

from .context import (
    BaseTowerContext,
    PredictTowerContext,
    TowerContext,
    TrainTowerContext,
    get_current_tower_context,
)
from .func import TowerFunc
from .handle import TowerTensorHandle, TowerTensorHandles
from .ranks import TowerRanks

TowerFuncWrapper = TowerFunc

__all__ = [
    "BaseTowerContext",
    "PredictTowerContext",
    "TowerContext",
    "TowerFunc",
    "TowerFuncWrapper",
    "TowerRanks",
    "TowerTensorHandle",
    "TowerTensorHandles",
    "TrainTowerContext",
    "get_current_tower_context",
]
