"""The default callbacks, monitors and extensions of a training."""

from __future__ import annotations

from typing import ContextManager, Sequence

from ..callbacks.graph import RunUpdateOps
from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.event_file import TFEventWriter
from ..callbacks.monitor.json_file import JSONWriter
from ..callbacks.monitor.table import ScalarTable
from ..callbacks.report import ReportWriter
from ..callbacks.steps import ProgressBar
from ..callbacks.summary import MergeAllSummaries, MovingAverageSummary
from ..diagnostics.gpu.errors import GPUErrors
from ..diagnostics.hangs.detector import HangDetection
from ..diagnostics.lint.lint import Lint
from ..diagnostics.manifest.model_graph import ModelGraph
from ..diagnostics.manifest.writer import ManifestWriter
from ..diagnostics.predictions.extension import Predictions
from ..diagnostics.probe.extension import Rehearsal, answers
from ..diagnostics.speed.operation_threads import OperationThreads
from ..diagnostics.speed.speed import Speed
from ..loop.callback import Callback
from ..loop.extension import ExtendedTrainer, Extension
from ..tfutils.model_utils import describe_trainable_vars
from ..tfutils.tower.error_hints import explain_mistakes
from .directory_lock import DirectoryLock
from .exact.extension import ExactTraining
from .exact.total_batch import TotalBatch
from .signals.extension import Signals


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


def DEFAULT_EXTENSIONS(  # noqa: N802
    lint: str = "warn",
    lint_ignore: Sequence[str] = (),
    on_hang: str = "report",
    rehearse: bool = False,
    end_within: float = 20.0,
    intra_op_threads: int | None = None,
) -> list[Extension]:
    """
    Return the extensions that each trainer has at first, in the order in which their contexts are entered.

    Args:
        lint, lint_ignore, on_hang, rehearse, intra_op_threads: see TrainConfig. `launch_train_with_config` uses those of its config instead.
        end_within: with `exact`, the seconds in which a training saves a checkpoint and ends after SIGTERM or SIGUSR1. When
            they are over, the process ends without a new checkpoint.

    Returns:
        A new list.

    Raises:
        ValueError: an argument has an unknown value.

    Example:
        >>> trainer.extensions = DEFAULT_EXTENSIONS(lint="error")
    """
    return [
        ExactTraining(),
        TotalBatch(),
        Signals(end_within),
        DirectoryLock(),  # before the callbacks write there
        ModelGraph(),
        Rehearsal(rehearse),
        OperationThreads(intra_op_threads),  # before lint and nan-replay, which ask for the number
        *answers(),  # end the process before lint would write into its directory
        Lint(lint, lint_ignore),
        HangDetection(on_hang),
        GPUErrors(),
        Predictions(),
        ListVariables(),
        ExplainsMistakes(),
    ]


def configured_extensions(
    lint: str, lint_ignore: Sequence[str], on_hang: str, rehearse: bool, intra_op_threads: int | None
) -> list[Extension]:
    """Return the extensions that have settings in a TrainConfig. They replace those of the trainer."""
    return [Rehearsal(rehearse), Lint(lint, lint_ignore), HangDetection(on_hang), OperationThreads(intra_op_threads)]


class ListVariables(Extension):
    """Extension that logs the trainable variables and the size of the model."""

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """Log a table."""
        describe_trainable_vars()


class ExplainsMistakes(Extension):
    """Extension that adds advice to errors about functions of TensorFlow 2, for callbacks and the data."""

    def around_loop(self, trainer: ExtendedTrainer) -> ContextManager[None]:
        """Explain an error of the training."""
        return explain_mistakes("The training")
