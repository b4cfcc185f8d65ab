"""
What in a pipeline keeps it from being sent to a worker that is spawned.

In:  a pipeline that cannot be pickled.
Out: the name of the stage and the attribute.
"""

from __future__ import annotations

import pickle
from typing import Any, Iterator

from ..base import DataFlow
from .stage_speed import stage_name

__all__ = ["find_unpicklable"]


def find_unpicklable(flow: DataFlow) -> str:
    """
    Name the innermost stage that cannot be pickled, and the attribute to blame, as "MapData(<lambda>).func".

    Args:
        flow: before its `reset_state`.
    """
    for stage in reversed(list(_all_stages(flow))):
        for name, value in vars(stage).items():
            if not isinstance(value, DataFlow) and not _can_be_pickled(value):
                return f"{stage_name(stage)}.{name}"
    return type(flow).__name__


def _all_stages(flow: Any) -> Iterator[Any]:
    """All stages, also those inside a runner, outermost first."""
    yield flow
    for value in vars(flow).values():
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(inner, DataFlow):
                yield from _all_stages(inner)


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 (pickle and users' classes raise what they like)
        return False
    return True
