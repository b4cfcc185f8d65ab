"""Training runs in a process that a command has started with a request."""

from __future__ import annotations

from typing import Any, Callable, ContextManager, Mapping

from ...loop.extension import ExtendedTrainer, Extension
from ...utils.checks import check_type
from .find_rate import FindRate
from .measure_batch import MeasureBatch
from .once import LintOnce, ReplayStep, ShowSummary
from .rehearse import rehearse_this_program
from .request import find_rehearsal
from .schedules import ShowSchedules
from .short_training import ShortTraining

_ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], Extension]] = {
    "find-batch": MeasureBatch,
    "find-lr": FindRate,
    "lint": LintOnce,
    "nan-replay": ReplayStep,
    "rehearse": ShortTraining,
    "schedule": ShowSchedules,
    "summary": ShowSummary,
}


class Rehearsal(Extension):
    """
    Extension that does what a command asks of this process, and ends the process; nothing if no command has started it.

    Args:
        rehearse: whether the script is rehearsed in other processes before it trains.
    """

    def __init__(self, rehearse: bool = False) -> None:
        self._rehearse = check_type("TrainConfig: rehearse", rehearse, bool)
        request = find_rehearsal()
        self._answer = Extension() if request is None else _ANSWERS[request.purpose](request.options)

    def around_training(self, trainer: ExtendedTrainer) -> ContextManager[None]:
        """Return the context of the answer. This and the other methods raise SystemExit, with the exit code for `run_rehearsal`."""
        if self._rehearse:
            rehearse_this_program()
        return self._answer.around_training(trainer)

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """Let the answer add callbacks."""
        self._answer.before_setup(trainer)

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """Let the answer look at the graph."""
        if trainer.arguments is not None:
            self._answer.after_setup(trainer)

    def after_initialize(self, trainer: ExtendedTrainer) -> None:
        """Let the answer use the session."""
        self._answer.after_initialize(trainer)

    def around_loop(self, trainer: ExtendedTrainer) -> ContextManager[None]:
        """Return the context of the answer around all epochs."""
        return self._answer.around_loop(trainer)

    def before_epochs(self, trainer: ExtendedTrainer) -> None:
        """Let the answer see where training begins."""
        self._answer.before_epochs(trainer)
