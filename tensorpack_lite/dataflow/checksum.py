"""A cheap checksum of datapoints, by which a resumed training notices that its data differs."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

__all__ = ["add_to_checksum"]

_NUM_SAMPLED = 128  # elements of an array; all of a large one would cost too much
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))


def add_to_checksum(checksum: int, datapoint: Any) -> int:
    """
    Return a checksum of a datapoint and of those before it, the same in each process.

    Of components that are not arrays, numbers or strings, only the type counts.

    Args:
        checksum: of the datapoints before; 0 before the first.
        datapoint: a list, tuple or dict of components.
    """
    components = datapoint.values() if isinstance(datapoint, dict) else datapoint
    for component in components if isinstance(datapoint, (list, tuple, dict)) else [datapoint]:
        checksum = zlib.crc32(_content(component), checksum)
    return checksum


def _content(component: Any) -> bytes:
    if isinstance(component, np.ndarray) and not component.dtype.hasobject:
        if component.size > _NUM_SAMPLED:
            component = component.reshape(-1)[:: component.size // _NUM_SAMPLED | 1]
        return component.tobytes()
    if isinstance(component, _PLAIN):
        return repr(component).encode("utf-8", "surrogatepass")
    return type(component).__name__.encode()
