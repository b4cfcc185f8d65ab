"""
Towers: copies of a model, built by calling one function under a context.

**In:** the user's function and the tensors of one tower, from input_source.
**Out:** `TowerContext` (the current tower), `TowerFunc` (builds towers), handles (tensors of a tower by name).
**Next:** graph_builder, which calls a tower function once per device and computes gradients.
"""

from .context import BaseTowerContext, PredictTowerContext, TowerContext, TrainTowerContext, get_current_tower_context
from .cross_tower import mean_over_towers
from .func import TowerFunc
from .handle import TowerTensorHandle, TowerTensorHandles
from .tower_ranks import TowerRanks

TowerFuncWrapper = TowerFunc

__all__ = [
    "BaseTowerContext", "PredictTowerContext", "TowerContext", "TowerFunc", "TowerFuncWrapper", "TowerRanks",
    "TowerTensorHandle", "TowerTensorHandles", "TrainTowerContext", "get_current_tower_context", "mean_over_towers",
]  # fmt: skip
