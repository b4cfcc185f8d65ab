"""Training runs in a process that a command has started with a request."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, ContextManager, Mapping

from ...loop.extension import ExtendedTrainer, Extension
from ...utils.checks import check_type
from .find_rate import FindRate
from .measure_batch import MeasureBatch
from .once import Once, lint_once, print_summary, replay_step
from .rehearse import rehearse_this_program
from .request import find_request
from .schedules import show_schedules
from .short_training import ShortTraining

_ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], Extension]] = {
    "find-batch": MeasureBatch,
    "find-lr": FindRate,
    "lint": partial(Once, lint_once),
    "nan-replay": partial(Once, replay_step),
    "rehearse": ShortTraining,
    "schedule": partial(Once, show_schedules),
    "summary": partial(Once, print_summary),
}


def answers() -> list[Extension]:
    """Return the extension that does what a command asks of this process, and ends it; none if no command has started it."""
    request = find_request()
    return [] if request is None else [_ANSWERS[request.purpose](request.options)]


class Rehearsal(Extension):
    """
    Extension that rehearses the script in other processes before it trains.

    Args:
        rehearse: whether it does.
    """

    def __init__(self, rehearse: bool = False) -> None:
        self._rehearse = check_type("TrainConfig: rehearse", rehearse, bool)

    def around_training(self, trainer: ExtendedTrainer) -> ContextManager[None]:
        """Rehearse."""
        if self._rehearse:
            rehearse_this_program()
        return super().around_training(trainer)
