"""
The form of datapoints (structure, types, dtypes and shapes), its changes, and a digest of their content.

In:  datapoints.
Out: sentences about changes from one datapoint to the next.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np

from ...dataflow.base import Datapoint


class Forms:
    """
    The forms of all datapoints that were added. The datapoints themselves are not kept.

    Attributes:
        count: number of datapoints that were added.
    """

    def __init__(self) -> None:
        self.count = 0
        self._structures: dict[str, int] = {}  # description -> number of the first datapoint that it fits
        self._kinds: dict[Any, dict[str, int]] = {}  # for each component: dtype and rank -> number
        self._shapes: dict[Any, dict[str, int]] = {}

    def add(self, datapoint: Datapoint) -> None:
        """Add a datapoint."""
        number, self.count = self.count, self.count + 1
        name = type(datapoint).__name__
        if isinstance(datapoint, dict):
            structure = f"a dict of {sorted(map(str, datapoint))}"
        elif isinstance(datapoint, (list, tuple)):
            structure = f"a {name} of {len(datapoint)} components"
        else:
            structure, datapoint = f"a {name} instead of a list", [datapoint]
        self._structures.setdefault(structure, number)
        components = datapoint.items() if isinstance(datapoint, dict) else enumerate(datapoint)
        for key, component in components:
            kind, shape = _kind(component)
            self._kinds.setdefault(key, {}).setdefault(kind, number)
            self._shapes.setdefault(key, {}).setdefault(shape, number)

    def changes(self) -> list[str]:
        """Return a sentence for each change of structure, type, dtype or number of dimensions."""
        found = [_sentence("a datapoint", self._structures)] if len(self._structures) > 1 else []
        for key, kinds in self._kinds.items():
            if len(kinds) > 1:
                found.append(_sentence(f"component {key!r}", kinds))
        return found

    def shape_changes(self) -> list[str]:
        """Return a sentence for each component whose shape changes."""
        return [
            f"component {key!r} has {len(shapes)} shapes: " + _sentence("it", dict(list(shapes.items())[:3]))
            for key, shapes in self._shapes.items()
            if len(shapes) > 1
        ]

    def describe(self) -> str:
        """Return a short description of the components, e.g. "0: 2-dimensional float32 (28, 28), 1: int"."""
        return ", ".join(
            f"{key}: {next(iter(kinds))} {next(iter(self._shapes[key]))}".rstrip() for key, kinds in self._kinds.items()
        )


def digest(datapoint: Datapoint) -> bytes:
    """
    Return a digest of 16 bytes; datapoints of equal content have equal digests.

    Args:
        datapoint: a list or dict of any components.
    """
    state = hashlib.blake2b(digest_size=16)
    _feed(state, datapoint)
    return state.digest()


def _sentence(what: str, seen: dict[str, int]) -> str:
    return f"{what} is " + ", then ".join(f"{form} (from datapoint {number})" for form, number in seen.items())


def _kind(component: object) -> tuple[str, str]:
    """Return the type of a component, or its dtype and number of dimensions, and its shape."""
    if isinstance(component, np.ndarray) and component.ndim > 0:
        return f"{component.ndim}-dimensional {component.dtype}", str(component.shape)
    if isinstance(component, (np.generic, np.ndarray)):
        return str(component.dtype), ""
    if isinstance(component, (list, tuple)):
        return type(component).__name__, f"of length {len(component)}"
    return type(component).__name__, ""


def _feed(state: hashlib.blake2b, item: object) -> None:
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
    elif isinstance(item, (bool, int, float, str, bytes)) or item is None:
        state.update(f"{type(item).__name__} {item!r} ".encode())
    else:
        try:
            state.update(pickle.dumps(item))
        except Exception:  # noqa: BLE001 (users' classes may raise anything; objects of one type then count as equal)
            state.update(f"object of {type(item).__qualname__} ".encode())
