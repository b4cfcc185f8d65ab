"""tensorpack's path of names that are defined in `models/arguments.py` and `models/variables.py`."""

from __future__ import annotations

from .arguments import convert_to_tflayer_args
from .variables import rename_get_variable, rename_tflayer_get_variable

__all__ = ["convert_to_tflayer_args", "rename_get_variable", "rename_tflayer_get_variable"]
