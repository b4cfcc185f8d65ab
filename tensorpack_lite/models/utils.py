"""tensorpack's path of a name that is defined in `models/variables.py`."""

from __future__ import annotations

from .variables import VariableHolder

__all__ = ["VariableHolder"]
