"""Names of tensorpack's `callbacks.group`, defined in `loop/group.py`."""

from __future__ import annotations

from ..loop.group import Callbacks

__all__ = ["Callbacks"]
