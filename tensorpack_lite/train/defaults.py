"""The default callbacks and monitors of a training."""

from __future__ import annotations

from ..callbacks.graph import RunUpdateOps
from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.event_file import TFEventWriter
from ..callbacks.monitor.json_file import JSONWriter
from ..callbacks.monitor.table import ScalarTable
from ..callbacks.report import ReportWriter
from ..callbacks.steps import ProgressBar
from ..callbacks.summary import MergeAllSummaries, MovingAverageSummary
from ..diagnostics.manifest.writer import ManifestWriter
from ..diagnostics.speed.speed import Speed
from ..loop.callback import Callback

__all__ = ["DEFAULT_CALLBACKS", "DEFAULT_MONITORS"]


def DEFAULT_CALLBACKS() -> list[Callback]:  # noqa: N802
    """
    Return the default `extra_callbacks`, which follow the user's callbacks.

    Returns:
        A new list: `MovingAverageSummary()`, `ProgressBar()`, `MergeAllSummaries()`, `RunUpdateOps()`,
        `ManifestWriter()`, `Speed()`, `ReportWriter()`.

    Difference from tensorpack: tensorpack has no `ManifestWriter`, `Speed` and `ReportWriter`.
    """
    return [
        MovingAverageSummary(),
        ProgressBar(),
        MergeAllSummaries(),
        RunUpdateOps(),
        ManifestWriter(),
        Speed(),
        ReportWriter(),
    ]


def DEFAULT_MONITORS() -> list[MonitorBase]:  # noqa: N802
    """
    Return the default `monitors`.

    Returns:
        A new list: `TFEventWriter()`, `JSONWriter()`, `ScalarTable()`.

    Difference from tensorpack: tensorpack has `ScalarPrinter()` instead of `ScalarTable()`.
    """
    return [TFEventWriter(), JSONWriter(), ScalarTable()]
