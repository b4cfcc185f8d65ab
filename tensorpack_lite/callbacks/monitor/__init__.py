"""
Monitors: where the numbers, images and events of a training go.

**In:** what callbacks put into `trainer.monitors`.
**Out:** an event file, `stats.json`, lines on the screen, and the history that other callbacks read.
**Next:** the user.
"""

from __future__ import annotations

from .base import MonitorBase, NoOpMonitor
from .command import SendMonitorData
from .event_file import TFEventWriter
from .json_file import JSONWriter
from .monitors import Monitors
from .printer import ScalarPrinter

__all__ = [
    "JSONWriter",
    "MonitorBase",
    "Monitors",
    "NoOpMonitor",
    "ScalarPrinter",
    "SendMonitorData",
    "TFEventWriter",
]
