"""
The rules of lint about data, for a pipeline without a training.

In:  datapoints.
Out: remarks.
"""

from __future__ import annotations

from typing import Any, Hashable

import numpy as np

from ...dataflow.base import Datapoint
from .data_rules import LabelRuns, ZeroImages, not_finite
from .datapoint_form import digest
from .remarks import Remark
from .repeats import RepeatedSamples, sample_digests


class ValueRules:
    """
    Rules D01 and D04, and those parts of D02 that need no model, for the datapoints of a pass.

    D01 examines the components that are integers or vectors of integers. D04 examines images if a component is a batch of
    them, otherwise whole datapoints.

    Args:
        length: the number of datapoints in a pass; 0 if it is unknown, and then only D02 is applied.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._num_seen = 0
        self._zeros: dict[str, ZeroImages] = {}
        self._runs: dict[str, LabelRuns] = {}
        self._repeats: RepeatedSamples | None = None

    def feed(self, datapoint: Datapoint) -> list[Remark]:
        """Take the next datapoint. Return remarks."""
        named = datapoint.items() if isinstance(datapoint, dict) else enumerate(datapoint)
        arrays = {f"component {key!r}": np.asarray(value) for key, value in named if _is_numeric(value)}
        found: list[Remark | None] = []
        for name, array in arrays.items():
            if self._num_seen < 2:
                found.append(self._zeros.setdefault(name, ZeroImages(name)).feed(array))
            if self._num_seen == 0:
                found.append(not_finite(name, array))
            if self._length and array.ndim <= 1 and array.dtype.kind in "iu":
                runs = self._runs.setdefault(name, LabelRuns(name))
                if not runs.is_done:
                    found.append(runs.feed(array))
        if self._length:
            found.append(self._find_copies(datapoint, list(arrays.values())))
        self._num_seen += 1
        return [remark for remark in found if remark is not None]

    def _find_copies(self, datapoint: Datapoint, arrays: list[np.ndarray]) -> Remark | None:
        images: list[Hashable] = next(filter(None, map(sample_digests, arrays)), [])
        samples = images or [digest(datapoint)]
        if self._repeats is None:
            self._repeats = RepeatedSamples("datapoints", self._length * len(samples))
        return None if self._repeats.is_done else self._repeats.feed(samples)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, (int, float, np.ndarray, np.generic)) and np.asarray(value).dtype.kind in "iuf"
