"""Name of tensorpack's `compat.tensor_spec`: `TensorSpec` is TensorFlow's class."""

from __future__ import annotations

from . import TensorSpec as TensorSpec
