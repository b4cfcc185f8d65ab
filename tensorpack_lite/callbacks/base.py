"""Names of tensorpack's `callbacks.base`, defined in `loop/callback.py`."""

from __future__ import annotations

from ..loop.callback import Callback, CallbackFactory, ProxyCallback

__all__ = ["Callback", "CallbackFactory", "ProxyCallback"]
