"""What a process does that a command has started with a request, by the purpose of the request."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from ...loop.extension import Extension
from .find_rate import FindRate
from .measure_batch import MeasureBatch
from .once import LintOnce, ReplayStep, ShowSummary
from .request import Request
from .schedules import ShowSchedules
from .short_training import ShortTraining

__all__ = ["make_answer"]

_ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], Extension]] = {
    "find-batch": MeasureBatch,
    "find-lr": FindRate,
    "lint": LintOnce,
    "nan-replay": ReplayStep,
    "rehearse": ShortTraining,
    "schedule": ShowSchedules,
    "summary": ShowSummary,
}


def make_answer(request: Request) -> Extension:
    """Return the extension that does what a request asks, and ends the process."""
    return _ANSWERS[request.purpose](request.options)
