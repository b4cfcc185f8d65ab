"""
Search for the attribute that prevents a pipeline from being pickled for a spawned worker.

In:  a pipeline that cannot be pickled.
Out: the names of the stage and the attribute.
"""

from __future__ import annotations

import pickle
import time

from ...dataflow.base import DataFlow
from ...dataflow.meter import stage_name
from ...utils.inspection import call_within, instance_attributes
from .stage_speed import walk

_MAX_SECONDS = 1.0


def find_unpicklable(flow: DataFlow) -> str:
    """
    Return the innermost stage that cannot be pickled and its attribute, e.g. "MapData(<lambda>).func".

    The search takes at most a second. Attributes that take longer to pickle are not found.

    Args:
        flow: a pipeline that was not reset.
    """
    end = time.perf_counter() + _MAX_SECONDS
    for stage in reversed(list(walk(flow, _stages_in))):
        for name, value in instance_attributes(stage).items():
            if not issubclass(type(value), DataFlow) and _cannot_be_pickled(value, end):
                return f"{stage_name(stage)}.{name}"
    return type(flow).__name__


def _stages_in(stage: DataFlow) -> list[DataFlow]:
    """Return the stages among the attributes of a stage, including those inside a runner."""
    values = instance_attributes(stage).values()
    items = [item for value in values for item in (value if type(value) in (list, tuple) else [value])]
    return [item for item in items if issubclass(type(item), DataFlow)]


def _cannot_be_pickled(value: object, end: float) -> bool:
    """Return whether pickling a value raises an error before a moment."""

    def attempt() -> bool:
        try:
            pickle.Pickler(_Sink(end)).dump(value)
        except _TooLongError:
            return False
        except Exception:  # noqa: BLE001 (pickle and users' classes may raise anything)
            return True
        return False

    return bool(call_within(end - time.perf_counter(), attempt))


class _TooLongError(Exception):
    pass


class _Sink:
    """A file that keeps nothing, and raises an error after a moment."""

    def __init__(self, end: float) -> None:
        self._end = end

    def write(self, content: bytes) -> int:
        if time.perf_counter() > self._end:
            raise _TooLongError
        return len(content)
