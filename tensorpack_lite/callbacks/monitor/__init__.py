"""
Monitors: destinations for the scalars, images and events of a training.

**In:** the values that callbacks report to `trainer.monitors`.
**Out:** an event file, `stats.json`, tables in the log, and the history that other callbacks read.
**Next:** the user.
"""

from __future__ import annotations

from .base import MonitorBase, NoOpMonitor
from .comet import CometMLMonitor
from .command import SendMonitorData
from .csv_file import CSVWriter
from .event_file import TFEventWriter
from .json_file import JSONWriter
from .mlflow_run import MLflowMonitor
from .monitors import Monitors
from .printer import ScalarPrinter
from .rows import RowFile, RowMonitor
from .table import ScalarTable
from .wandb_run import WandbMonitor

__all__ = [
    "CSVWriter",
    "CometMLMonitor",
    "JSONWriter",
    "MLflowMonitor",
    "MonitorBase",
    "Monitors",
    "NoOpMonitor",
    "RowFile",
    "RowMonitor",
    "ScalarPrinter",
    "ScalarTable",
    "SendMonitorData",
    "TFEventWriter",
    "WandbMonitor",
]
