"""The default callbacks, monitors and extensions of a training."""

from __future__ import annotations

from typing import Sequence

from ..callbacks.graph import RunUpdateOps
from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.event_file import TFEventWriter
from ..callbacks.monitor.json_file import JSONWriter
from ..callbacks.monitor.table import ScalarTable
from ..callbacks.report import ReportWriter
from ..callbacks.steps import ProgressBar
from ..callbacks.summary import MergeAllSummaries, MovingAverageSummary
from ..diagnostics.gpu.errors import GPUErrors
from ..diagnostics.hangs.watch import HangWatch
from ..diagnostics.lint.lint import Lint, check_lint
from ..diagnostics.manifest.model_graph import ModelGraph
from ..diagnostics.manifest.writer import ManifestWriter
from ..diagnostics.rehearsal.rehearsed import Rehearsal
from ..diagnostics.speed.speed import Speed
from ..loop.callback import Callback
from ..loop.extension import Extension
from ..utils.checks import check_choice
from .directory_lock import DirectoryLock
from .exact_training import ExactTraining
from .signals import Signals

__all__ = ["DEFAULT_CALLBACKS", "DEFAULT_EXTENSIONS", "DEFAULT_MONITORS", "check_settings"]


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


def DEFAULT_EXTENSIONS() -> list[Extension]:  # noqa: N802
    """
    Return the extensions that each trainer has at first, in the order in which their contexts are entered.

    Returns:
        A new list.
    """
    return [
        ExactTraining(),  # sets `trainer.exact`, which `Signals` reads
        Signals(),
        DirectoryLock(),  # before the callbacks write there
        ModelGraph(),
        Rehearsal(),  # ends the process before lint would write into its directory
        Lint(),
        HangWatch(),
        GPUErrors(),
    ]


def check_settings(
    who: str, lint: str, lint_ignore: Sequence[str], on_hang: str
) -> tuple[str, list[str], str]:
    """
    Return the settings of the default extensions; see TrainConfig.

    Raises:
        ValueError: one of them has an unknown value.
    """
    return (
        *check_lint(who, lint, lint_ignore),
        check_choice(f"{who}: on_hang", on_hang, ["report", "abort"]),
    )
