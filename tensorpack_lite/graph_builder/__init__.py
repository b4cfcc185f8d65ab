"""
Builders that turn a tower function into gradients and updates, on one device or several.

**In:** the input tensors of one tower, from input_source, and the tower function, from the user.
**Out:** `[(gradient, variable)]` for each tower; for several towers, the update that combines them.
**Next:** train, where each trainer makes its `train_op` of them.
"""

from typing import TYPE_CHECKING

from ..utils.missing_names import explain_missing_names
from .allreduce import allreduce_grads
from .data_parallel import DataParallelBuilder
from .model_desc import ModelDesc, ModelDescBase
from .placement import LeastLoadedDeviceSetter

__all__ = [
    "DataParallelBuilder", "LeastLoadedDeviceSetter", "ModelDesc", "ModelDescBase", "allreduce_grads",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)
