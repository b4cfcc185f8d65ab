"""Methods of Python 2, for classes in files that are translated from it; see `rewrite.py`."""

from __future__ import annotations

import operator
from typing import Any, Callable

from ..startup.sitecustomize import replacement


def compared(cls: type) -> type:
    """Let the objects of a class be compared by its method `__cmp__`, where it has no other method for it."""
    for name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
        if name not in vars(cls):
            replacement.add(cls, name, _comparison(getattr(operator, name)))
    return cls


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        result = self.__cmp__(other)
        return result if result is NotImplemented else compare(result, 0)

    return method
