"""tensorpack's path of names that are defined in `models/registry.py` and `models/variables.py`."""

from __future__ import annotations

from .registry import disable_layer_logging, layer_register
from .variables import VariableHolder, rename_tflayer_get_variable

__all__ = ["VariableHolder", "disable_layer_logging", "layer_register", "rename_tflayer_get_variable"]
