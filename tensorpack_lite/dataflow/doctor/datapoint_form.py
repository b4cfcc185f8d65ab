"""
What a datapoint is made of, and whether all are made of the same; and a short name for its content.

In:  datapoints.
Out: sentences on what changed from one to the next.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np

__all__ = ["Forms", "digest"]


class Forms:
    """
    Look at datapoints and remember their forms, not the datapoints.

    Attributes:
        count: how many were looked at.
    """

    def __init__(self) -> None:
        self.count = 0
        self._structures: dict[str, int] = {}  # what was seen -> number of the first datapoint that has it
        self._kinds: dict[Any, dict[str, int]] = {}  # the same for each component: its dtype and rank
        self._shapes: dict[Any, dict[str, int]] = {}

    def add(self, datapoint: Any) -> None:
        """Look at a datapoint."""
        number, self.count = self.count, self.count + 1
        keys = list(datapoint) if isinstance(datapoint, dict) else None
        if keys is None and not isinstance(datapoint, (list, tuple)):
            self._structures.setdefault(f"a {type(datapoint).__name__} and no list", number)
            datapoint = [datapoint]
        elif keys is None:
            self._structures.setdefault(
                f"a {type(datapoint).__name__} of {len(datapoint)} components", number
            )
        else:
            self._structures.setdefault(f"a dict of {sorted(map(str, keys))}", number)
        for key, component in datapoint.items() if keys is not None else enumerate(datapoint):
            kind, shape = _kind(component)
            self._kinds.setdefault(key, {}).setdefault(kind, number)
            self._shapes.setdefault(key, {}).setdefault(shape, number)

    def changes(self) -> list[str]:
        """Give a sentence for each change of structure, type, dtype or number of dimensions."""
        found = [_sentence("a datapoint", self._structures)] if len(self._structures) > 1 else []
        for key, kinds in self._kinds.items():
            if len(kinds) > 1:
                found.append(_sentence(f"component {key!r}", kinds))
        return found

    def shape_changes(self) -> list[str]:
        """Give a sentence for each component whose shape changes."""
        return [
            f"component {key!r} has {len(shapes)} shapes: " + _sentence("it", dict(list(shapes.items())[:3]))
            for key, shapes in self._shapes.items()
            if len(shapes) > 1
        ]

    def describe(self) -> str:
        """Give the components in short, as "0: float32 (28, 28), 1: int"."""
        return ", ".join(
            f"{key}: {next(iter(kinds))} {next(iter(self._shapes[key]))}".rstrip()
            for key, kinds in self._kinds.items()
        )


def digest(datapoint: Any) -> bytes:
    """
    Name the content of a datapoint in 16 bytes; what is equal has the same name.

    Args:
        datapoint: a list or dict of anything.
    """
    state = hashlib.blake2b(digest_size=16)
    _feed(state, datapoint)
    return state.digest()


def _sentence(what: str, seen: dict[str, int]) -> str:
    return f"{what} is " + ", then ".join(
        f"{form} (from datapoint {number})" for form, number in seen.items()
    )


def _kind(component: Any) -> tuple[str, str]:
    """Give a component's type or dtype with its number of dimensions, and its shape."""
    if isinstance(component, np.ndarray) and component.ndim > 0:
        return f"{component.dtype} of {component.ndim} dimensions", str(component.shape)
    if isinstance(component, (np.generic, np.ndarray)):
        return str(component.dtype), ""
    if isinstance(component, (list, tuple)):
        return type(component).__name__, f"of length {len(component)}"
    return type(component).__name__, ""


def _feed(state: Any, item: Any) -> None:
    if isinstance(item, dict):
        for key in sorted(item, key=str):
            state.update(f"key {key!r} ".encode())
            _feed(state, item[key])
    elif isinstance(item, (list, tuple)):
        state.update(f"sequence of {len(item)} ".encode())
        for element in item:
            _feed(state, element)
    elif isinstance(item, np.ndarray) and item.dtype != object:
        state.update(f"array {item.dtype} {item.shape} ".encode())
        state.update(np.ascontiguousarray(item).tobytes())
    else:
        state.update(_bytes_of(item))


def _bytes_of(item: Any) -> bytes:
    if isinstance(item, (bool, int, float, str, bytes)) or item is None:
        return f"{type(item).__name__} {item!r} ".encode()
    try:
        return pickle.dumps(item)
    except Exception:  # noqa: BLE001 (users' classes raise what they like; two of them then count as equal if of one type)
        return f"object of {type(item).__qualname__} ".encode()
