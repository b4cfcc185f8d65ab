"""Names of tensorpack's `callbacks.stats`, defined in `callbacks/graph.py` and `callbacks/misc.py`."""

from __future__ import annotations

from .graph import DumpParamAsImage
from .misc import InjectShell, SendStat

__all__ = ["DumpParamAsImage", "InjectShell", "SendStat"]
