"""An address: these live in `loop/hooks.py`."""

from __future__ import annotations

from ..loop.hooks import CallbackToHook, HookToCallback

__all__ = ["CallbackToHook", "HookToCallback"]
