"""Names of tensorpack's `callbacks.hooks`, defined in `loop/hooks.py` and `callbacks/debug_cli.py`."""

from __future__ import annotations

from ..loop.hooks import CallbackToHook, HookToCallback
from .debug_cli import TFLocalCLIDebugHook

__all__ = ["CallbackToHook", "HookToCallback", "TFLocalCLIDebugHook"]
