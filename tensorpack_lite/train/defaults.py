"""The callbacks and monitors that a training has unless it asks for others."""

from __future__ import annotations

from ..callbacks.graph import RunUpdateOps
from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.event_file import TFEventWriter
from ..callbacks.monitor.json_file import JSONWriter
from ..callbacks.monitor.printer import ScalarPrinter
from ..callbacks.steps import ProgressBar
from ..callbacks.summary import MergeAllSummaries, MovingAverageSummary
from ..loop.callback import Callback

__all__ = ["DEFAULT_CALLBACKS", "DEFAULT_MONITORS"]


def DEFAULT_CALLBACKS() -> list[Callback]:  # noqa: N802
    """
    Make the default `extra_callbacks`: they come after the user's.

    Returns:
        A new list: `MovingAverageSummary()`, `ProgressBar()`, `MergeAllSummaries()`, `RunUpdateOps()`.

    tensorpack: same.
    """
    return [MovingAverageSummary(), ProgressBar(), MergeAllSummaries(), RunUpdateOps()]


def DEFAULT_MONITORS() -> list[MonitorBase]:  # noqa: N802
    """
    Make the default `monitors`.

    Returns:
        A new list: `TFEventWriter()`, `JSONWriter()`, `ScalarPrinter()`.

    tensorpack: same.
    """
    return [TFEventWriter(), JSONWriter(), ScalarPrinter()]
