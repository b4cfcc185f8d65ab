"""Names of tensorpack's `callbacks.base`, defined in `loop/callback.py`."""

from __future__ import annotations

from ..loop.callback import Callback
from ..loop.callback_factory import CallbackFactory
from ..loop.proxy_callback import ProxyCallback

__all__ = ["Callback", "CallbackFactory", "ProxyCallback"]
