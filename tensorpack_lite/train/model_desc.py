"""Name of tensorpack's `train.model_desc`, defined in `graph_builder/model_desc.py`."""

from typing import TYPE_CHECKING

from ..graph_builder.model_desc import ModelDesc, ModelDescBase
from ..utils.missing_names import explain_missing_names

__all__ = ["ModelDesc", "ModelDescBase"]

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)
