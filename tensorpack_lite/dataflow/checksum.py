"""A cheap checksum of datapoints, by which a resumed training notices that its data differs."""

from __future__ import annotations

import zlib
from types import FunctionType
from typing import Any

import numpy as np

_NUM_SAMPLED = 128  # elements of an array; all of a large one would cost too much
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))


def add_to_checksum(checksum: int, datapoint: Any) -> int:
    """
    Return a checksum of a datapoint and of those before it, the same in each process.

    Of components that are not arrays, numbers or strings, only the type counts. Nothing of a user's class is called.

    Args:
        checksum: of the datapoints before; 0 before the first.
        datapoint: a list, tuple or dict of components.
    """
    components = datapoint.values() if isinstance(datapoint, dict) else datapoint
    for component in components if isinstance(datapoint, (list, tuple, dict)) else [datapoint]:
        checksum = zlib.crc32(_content(component), checksum)
    return checksum


def _content(component: Any) -> bytes:
    if issubclass(type(component), np.ndarray) and not component.dtype.hasobject:
        # `flat` copies only these elements, also of an array that is not contiguous
        if component.size > _NUM_SAMPLED:
            return component.flat[:: component.size // _NUM_SAMPLED | 1].tobytes()
        return component.tobytes()
    kind = type(component)
    if issubclass(kind, _PLAIN) and not isinstance(kind.__repr__, FunctionType):
        return repr(component).encode("utf-8", "surrogatepass")
    return kind.__name__.encode()
