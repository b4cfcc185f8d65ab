"""
From a tower function to gradients, on one device or several.

**In:** input tensors of one tower, from input_source; the tower function, from the user.
**Out:** `[(gradient, variable)]` of each tower; for several towers, the update made of them.
**Next:** train, where each trainer turns them into its `train_op`.
"""

from .allreduce import allreduce_grads
from .data_parallel import DataParallelBuilder
from .model_desc import ModelDesc, ModelDescBase
from .placement import LeastLoadedDeviceSetter

__all__ = [
    "DataParallelBuilder",
    "LeastLoadedDeviceSetter",
    "ModelDesc",
    "ModelDescBase",
    "allreduce_grads",
]
