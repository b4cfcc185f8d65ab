"""
Several DataFlows as one: chosen at random, mixed, one after the other, side by side.

In:  datapoints of several DataFlows.
Out: one stream of them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Iterator, Sequence, Tuple, Union

import numpy as np

from ..utils import logger
from .base import DataFlow, Datapoint, InfiniteLengthError, RNGDataFlow, require_dataflow, reset_each_once

__all__ = ["ConcatData", "JoinData", "RandomChooseData", "RandomMixData"]

_END = object()


class RandomChooseData(RNGDataFlow):
    """
    Draw, for each datapoint, the DataFlow it comes from.

    Length: none. A pass ends as soon as a DataFlow is drawn that has ended, so repeat them (`RepeatedData(ds, -1)`).
    Order: random.
    Process: stays in this one.

    Args:
        df_lists: DataFlows, drawn with equal probability; or pairs (DataFlow, probability) whose probabilities sum to 1.

    Raises:
        ValueError: no DataFlow, or probabilities that are negative or do not sum to 1.
        TypeError: something that is not a DataFlow.

    Example:
        >>> RandomChooseData([(photos, 0.7), (drawings, 0.3)])

    tensorpack: same; there [0.7, 0.2, 0.1] is refused, because its sum in floating point is not exactly 1.
    """

    def __init__(self, df_lists: Sequence[Union[DataFlow, Tuple[DataFlow, float]]]) -> None:
        weighted = [isinstance(entry, (tuple, list)) for entry in df_lists]
        if len(set(weighted)) > 1:
            raise TypeError(
                "RandomChooseData: takes a list of DataFlows or a list of pairs (DataFlow, probability), got a mixture. "
                "Give each one its probability."
            )
        pairs: Any = df_lists if all(weighted) else [(ds, 1.0 / len(df_lists)) for ds in df_lists]
        self.df_lists = _require_some(self, [ds for ds, _ in pairs])
        self.probabilities = [float(probability) for _, probability in pairs]
        if min(self.probabilities) < 0 or not np.isclose(sum(self.probabilities), 1.0):
            raise ValueError(
                f"RandomChooseData: probabilities must be >= 0 and sum to 1, got {self.probabilities} with the sum "
                f"{sum(self.probabilities):g}."
            )

    def reset_state(self) -> None:
        """Reset each DataFlow, once."""
        super().reset_state()
        reset_each_once(self.df_lists)

    def __iter__(self) -> Iterator[Datapoint]:
        sources = [iter(ds) for ds in self.df_lists]
        bounds = np.cumsum(self.probabilities)
        bounds = (bounds / bounds[-1]).tolist()
        draw = self.rng.random_sample
        while True:
            # the draws of rng.choice(sources, p=probabilities), at a fiftieth of its cost
            datapoint = next(sources[bisect_right(bounds, draw())], _END)
            if datapoint is _END:
                return
            yield datapoint


class RandomMixData(RNGDataFlow):
    """
    All datapoints of several DataFlows, in one random order.

    Length: the sum of the lengths.
    Order: which DataFlow comes next is random; the datapoints of each keep their order.
    Process: stays in this one.

    Args:
        df_lists: DataFlows that know their lengths.

    Raises:
        NotImplementedError: one has no length.
        ValueError: no DataFlow.
        TypeError: something that is not a DataFlow.
        RuntimeError: while iterating: one ended before its length was reached.

    tensorpack: same; there an empty DataFlow at the end of the list fails.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        self.df_lists = _require_some(self, df_lists)
        self.sizes = [len(ds) for ds in self.df_lists]

    def __len__(self) -> int:
        return sum(self.sizes)

    def reset_state(self) -> None:
        """Reset each DataFlow, once."""
        super().reset_state()
        reset_each_once(self.df_lists)

    def __iter__(self) -> Iterator[Datapoint]:
        sources = [iter(ds) for ds in self.df_lists]
        order = self.rng.permutation(len(self))
        for which in np.searchsorted(np.cumsum(self.sizes), order, side="right").tolist():
            datapoint = next(sources[which], _END)
            if datapoint is _END:
                raise RuntimeError(
                    f"RandomMixData: DataFlow {which} ({type(self.df_lists[which]).__name__}) has len() "
                    f"{self.sizes[which]} and ended before. Make its __len__ exact."
                )
            yield datapoint


class ConcatData(DataFlow):
    """
    One DataFlow after the other.

    Length: the sum of the lengths.
    Order: that of each, in the order of the list.
    Process: stays in this one.

    Args:
        df_lists: DataFlows.

    Raises:
        ValueError: no DataFlow.
        TypeError: something that is not a DataFlow.

    tensorpack: same.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        self.df_lists = _require_some(self, df_lists)

    def __len__(self) -> int:
        return sum(len(ds) for ds in self.df_lists)

    def reset_state(self) -> None:
        """Reset each DataFlow, once."""
        reset_each_once(self.df_lists)

    def __iter__(self) -> Iterator[Datapoint]:
        for ds in self.df_lists:
            yield from ds


class JoinData(DataFlow):
    """
    The components of several DataFlows side by side in one datapoint.

    [a, b] and [c] become [a, b, c]; dicts are merged, the later one winning.

    Length: the smallest of the lengths; DataFlows that never end do not count.
    Order: that of each. A pass ends with the shortest.
    Process: stays in this one.

    Args:
        df_lists: DataFlows, all of lists (or tuples) or all of dicts. One that is listed twice is reset once and
            iterated twice, so it must bear two iterators at a time. Lengths that differ are logged.

    Raises:
        ValueError: no DataFlow; while iterating: lists together with dicts.
        TypeError: something that is not a DataFlow.

    Example:
        >>> JoinData([images, masks])

    tensorpack: same.
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        self.df_lists = _require_some(self, df_lists)
        try:
            sizes = [len(ds) for ds in self.df_lists]
        except NotImplementedError:
            logger.info("JoinData: lengths are not all known; a pass ends with the shortest DataFlow.")
        else:
            if len(set(sizes)) > 1:
                logger.info(f"JoinData: lengths differ, {sizes}; a pass ends with the shortest.")

    def __len__(self) -> int:
        lengths = []
        for ds in self.df_lists:
            try:
                lengths.append(len(ds))
            except InfiniteLengthError as error:
                infinite = error
        if not lengths:
            raise infinite
        return min(lengths)

    def reset_state(self) -> None:
        """Reset each DataFlow, once."""
        reset_each_once(self.df_lists)

    def __iter__(self) -> Iterator[Datapoint]:
        for datapoints in zip(*self.df_lists):
            yield _joined(datapoints)


def _joined(datapoints: Sequence[Datapoint]) -> Datapoint:
    if all(isinstance(datapoint, (list, tuple)) for datapoint in datapoints):
        return [component for datapoint in datapoints for component in datapoint]
    if all(isinstance(datapoint, dict) for datapoint in datapoints):
        return {key: component for datapoint in datapoints for key, component in datapoint.items()}
    forms = ", ".join(type(datapoint).__name__ for datapoint in datapoints)
    raise ValueError(
        f"JoinData: joins lists with lists and dicts with dicts, got {forms}. Bring them to one form with MapData."
    )


def _require_some(who: DataFlow, df_lists: Sequence[Any]) -> list[DataFlow]:
    dataflows = [require_dataflow(who, ds) for ds in df_lists]
    if not dataflows:
        raise ValueError(f"{type(who).__name__}: needs at least one DataFlow, got none.")
    return dataflows
