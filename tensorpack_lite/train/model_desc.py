"""Name of tensorpack's `train.model_desc`, defined in `graph_builder/model_desc.py`."""

from typing import TYPE_CHECKING

from ..graph_builder.model_desc import ModelDesc, ModelDescBase
from ..utils.old_names import old_name_finder, old_star_names

__all__ = ["ModelDesc", "ModelDescBase"]

if not TYPE_CHECKING:  # old names, for `tensorpack-lite run`
    __getattr__ = old_name_finder(__name__)
    __all__ += old_star_names(__name__)
