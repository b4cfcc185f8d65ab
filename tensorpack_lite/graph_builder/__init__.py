"""
From a tower function to gradients.

**In:** input tensors of one tower, from input_source; the tower function, from the user.
**Out:** `[(gradient, variable)]` of each tower.
**Next:** train, where each trainer turns them into its `train_op`.
"""

from .model_desc import ModelDesc, ModelDescBase

__all__ = ["ModelDesc", "ModelDescBase"]
