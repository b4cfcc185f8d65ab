"""The plans of callbacks that set hyper-parameters, within the epochs of a training."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple

import numpy as np

from ...callbacks.param.hyperparam import GraphVarParam
from ...callbacks.param.schedule import ScheduledHyperParamSetter
from ...callbacks.param.setter import HyperParamSetterWithFunc, PlannedHyperParamSetter
from ...tfutils.sessinit import JustCurrentSession
from ...utils.schedules import is_schedule
from .rate_rules import initial_number
from .training import ExaminedTraining

_NUM_SAMPLES = 400  # of a plan, between which it is not evaluated


class Plan(NamedTuple):
    """
    A plan whose values are known without calling code of the script.

    Attributes:
        setter: the callback that has it.
        first, last: the epochs that are done when training begins and ends.
        steps: the number of steps in an epoch.
        initial: the value before anything is set; None if it is not known.
    """

    setter: PlannedHyperParamSetter
    first: int
    last: int
    steps: int
    initial: float | None = None

    @property
    def scale(self) -> int:
        """The number of points of the plan in an epoch."""
        return self.steps if self.setter.step_based else 1

    @property
    def points(self) -> list[int]:
        """The points of a `ScheduledHyperParamSetter`; otherwise empty."""
        return [point for point, _ in getattr(self.setter, "schedule", ())]

    def value_at(self, point: float) -> float | None:
        """Return the value in use at a point; None before the first one that sets it."""
        value: Any = self.setter.preview(int(point + 1e-6), None)
        return value

    def values(self, end: int) -> np.ndarray:
        """Return values in use from the beginning of training until point `end`, in order, float64 [N]."""
        begin = self.first * self.scale
        spread = np.linspace(begin, max(begin, end - 1), _NUM_SAMPLES).astype(int).tolist()
        inside = [point for point in self.points if begin <= point < end]
        points = sorted({*spread, *inside, *range(begin, min(end, begin + _NUM_SAMPLES))})
        found = [self.value_at(point) for point in points]
        known = [self.initial if value is None else value for value in found]
        return np.array([value for value in known if value is not None], "float64")

    @property
    def interval(self) -> tuple[float, float]:
        """The times, in epochs, between which each point sets a value; equal if there are only single points."""
        if not self.points:
            return float(self.first), float(self.last)
        is_linear = getattr(self.setter, "_interp", None) is not None
        begin, end = self.points[0] / self.scale, self.points[-1] / self.scale
        return (begin, end) if is_linear else (begin, begin)

    @property
    def times(self) -> list[float]:
        """The single times, in epochs, at which a value is set."""
        return [point / self.scale for point in self.points]


def known_plans(training: ExaminedTraining, setters: list[Any]) -> Iterator[Plan]:
    """Yield the plans of those callbacks whose values are known; nothing if the epochs of the training are not."""
    arguments = training.trainer.arguments
    if arguments is None:
        return
    first, last = arguments.starting_epoch - 1, arguments.max_epoch
    for setter in setters:
        if isinstance(setter, ScheduledHyperParamSetter) or _is_of_library(setter):
            yield Plan(setter, first, last, max(1, arguments.steps_per_epoch), _initial_value(training, setter))


def _initial_value(training: ExaminedTraining, setter: Any) -> float | None:
    is_new = type(training.session_init) is JustCurrentSession and isinstance(setter.param, GraphVarParam)
    return initial_number(setter.param.var) if is_new else None


def _is_of_library(setter: Any) -> bool:
    return isinstance(setter, HyperParamSetterWithFunc) and is_schedule(setter._func)
