"""Address: TensorSpec is TensorFlow's own; `compat` has it."""

from __future__ import annotations

from . import TensorSpec

__all__ = ["TensorSpec"]
