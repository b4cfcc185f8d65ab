"""The default callbacks, monitors and extensions of a training."""

from __future__ import annotations

from typing import Any, ContextManager, Sequence

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
from ..diagnostics.rehearsal.extension import Rehearsal
from ..diagnostics.speed.speed import Speed
from ..loop.callback import Callback
from ..loop.extension import Extension
from ..tfutils.model_utils import describe_trainable_vars
from ..tfutils.tower.mistakes import explain_mistakes
from ..utils.checks import check_choice
from .directory_lock import DirectoryLock
from .exact.extension import ExactTraining
from .exact.total_batch import TotalBatch
from .signals.extension import Signals

__all__ = ["DEFAULT_CALLBACKS", "DEFAULT_EXTENSIONS", "DEFAULT_MONITORS"]


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
        TotalBatch(),
        Signals(),
        DirectoryLock(),  # before the callbacks write there
        ModelGraph(),
        Rehearsal(),  # ends the process before lint would write into its directory
        Lint(),
        HangWatch(),
        GPUErrors(),
        ListVariables(),
        ExplainsMistakes(),
    ]


class ListVariables(Extension):
    """Extension that logs the trainable variables and the size of the model."""

    def before_setup(self, trainer: Any) -> None:
        """Log a table."""
        describe_trainable_vars()


class ExplainsMistakes(Extension):
    """Extension that adds the cure to errors about functions of TensorFlow 2, for callbacks and the data."""

    def around_loop(self, trainer: Any) -> ContextManager[None]:
        """Explain an error of the training."""
        return explain_mistakes("The training")


class ExtensionSettings:
    """
    Base class of `Trainer` with the settings of its default extensions. Set them before training.

    Attributes:
        lint: whether common mistakes in the graph, the callbacks and the data are logged ("warn"), end training before its
            first step ("error"), or are not looked for ("off"); "deep" is "warn" with 200 steps on one batch, after which
            variables are put back. See docs/lint.md.
        lint_ignore: ids of rules that lint leaves out.
        on_hang: what to do when training hangs, "report", "stacks" or "abort"; see TrainConfig.
        rehearse: whether the script is rehearsed before it trains; see TrainConfig.
        end_within: with `exact`, the seconds in which a training saves a checkpoint and ends after SIGTERM or
            SIGUSR1; 20 by default. When they are over, the process ends without a new checkpoint.
        not_exact: why trainings of this class cannot be resumed exactly; empty if they can.
    """

    lint = "warn"
    lint_ignore: Sequence[str] = ()
    on_hang = "report"
    rehearse = False
    end_within = 20.0
    not_exact = ""


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
        check_choice(f"{who}: on_hang", on_hang, ["report", "stacks", "abort"]),
    )
