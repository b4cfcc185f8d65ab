"""
Search for the attribute that prevents a pipeline from being pickled for a spawned worker.

In:  a pipeline that cannot be pickled.
Out: the names of the stage and the attribute.
"""

from __future__ import annotations

import pickle
from typing import Iterator

from ..base import DataFlow
from ..meter import stage_name

__all__ = ["find_unpicklable"]


def find_unpicklable(flow: DataFlow) -> str:
    """
    Return the innermost stage that cannot be pickled and its attribute, e.g. "MapData(<lambda>).func".

    Args:
        flow: a pipeline that was not reset.
    """
    for stage in reversed(list(_all_stages(flow))):
        for name, value in vars(stage).items():
            if not isinstance(value, DataFlow) and not _can_be_pickled(value):
                return f"{stage_name(stage)}.{name}"
    return type(flow).__name__


def _all_stages(flow: DataFlow) -> Iterator[DataFlow]:
    """Yield all stages, including those inside a runner, outermost first."""
    yield flow
    for value in vars(flow).values():
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(inner, DataFlow):
                yield from _all_stages(inner)


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 (pickle and users' classes may raise anything)
        return False
    return True
