"""
DataFlows that combine several others: at random, one after the other, or side by side.

In:  datapoints of several DataFlows.
Out: one stream of datapoints.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import abc
from typing import Any, Iterator, Sequence, Tuple, Union

import numpy as np

from ..utils import logger
from ..utils.checks import check_type
from .base import (
    DataFlow,
    Datapoint,
    InfiniteLengthError,
    RNGDataFlow,
    length_or_none,
    require_dataflow,
    reset_each_once,
)

_END = object()


class _CombinedData(DataFlow):
    """Base class for DataFlows that combine several others."""

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        check_type(f"{type(self).__name__}: df_lists", df_lists, abc.Iterable, "a list of DataFlows")
        self.df_lists = [require_dataflow(self, ds) for ds in df_lists]
        if not self.df_lists:
            raise ValueError(f"{type(self).__name__}: df_lists is empty; expected at least one DataFlow.")

    def reset_state(self) -> None:
        """Reset each DataFlow once."""
        super().reset_state()
        reset_each_once(self.df_lists)

    def __iter__(self) -> Iterator[Datapoint]:
        return self.iter_from(0)

    def _stages_read(self) -> list[DataFlow]:
        return self.df_lists


class RandomChooseData(_CombinedData, RNGDataFlow):
    """
    DataFlow that draws each datapoint from a randomly chosen one of several DataFlows.

    Length: unknown. A pass ends as soon as the chosen DataFlow has ended, so repeat them with `RepeatedData(ds, -1)`.
    Order: random.
    Process: runs in the current process.

    Args:
        df_lists: DataFlows, chosen with equal probability; or pairs (DataFlow, probability) whose
            probabilities sum to 1.

    Raises:
        ValueError: `df_lists` is empty, or probabilities are negative or do not sum to 1.
        TypeError: an element is not a DataFlow.

    Example:
        >>> RandomChooseData([(photos, 0.7), (drawings, 0.3)])
    """

    def __init__(self, df_lists: Sequence[Union[DataFlow, Tuple[DataFlow, float]]]) -> None:
        df_lists = list(check_type("RandomChooseData: df_lists", df_lists, abc.Iterable, "a list of DataFlows"))
        weighted = [isinstance(entry, (tuple, list)) for entry in df_lists]
        if len(set(weighted)) > 1:
            raise TypeError(
                "RandomChooseData: expected a list of DataFlows or a list of pairs (DataFlow, probability), got a "
                "mixture. Give every DataFlow a probability."
            )
        pairs: Any = df_lists if all(weighted) else [(ds, 1.0 / len(df_lists)) for ds in df_lists]
        super().__init__([ds for ds, _ in pairs])
        self.probabilities = [float(probability) for _, probability in pairs]
        if min(self.probabilities) < 0 or not np.isclose(sum(self.probabilities), 1.0):
            raise ValueError(
                f"RandomChooseData: expected probabilities >= 0 whose sum is 1, got {self.probabilities}, whose sum is "
                f"{sum(self.probabilities):g}."
            )

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield datapoints of randomly chosen DataFlows."""
        sources = [iter(ds) for ds in self.df_lists]
        bounds = np.cumsum(self.probabilities)
        bounds = (bounds / bounds[-1]).tolist()
        draw = self.rng.random_sample
        while True:
            # draws the same numbers as rng.choice(sources, p=probabilities), fifty times faster
            datapoint = next(sources[bisect_right(bounds, draw())], _END)
            if datapoint is _END:
                return
            yield datapoint


class RandomMixData(_CombinedData, RNGDataFlow):
    """
    DataFlow that yields all datapoints of several DataFlows in random order.

    Length: the sum of the lengths.
    Order: the DataFlow of the next datapoint is random; datapoints of one DataFlow keep their order.
    Process: runs in the current process.

    Args:
        df_lists: DataFlows that know their lengths.

    Raises:
        NotImplementedError: a DataFlow has no length.
        ValueError: `df_lists` is empty.
        TypeError: an element is not a DataFlow.
        RuntimeError: (while iterating) a DataFlow yielded fewer datapoints than its length.
    """

    _draws_order = True

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        super().__init__(df_lists)
        self.sizes = [len(ds) for ds in self.df_lists]

    def __len__(self) -> int:
        return sum(self.sizes)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield datapoints in the order of this pass, without the first ones."""
        return self._in_order(self.rng.permutation(len(self))[num_done:])

    def _in_order(self, order: np.ndarray) -> Iterator[Datapoint]:
        sources = [iter(ds) for ds in self.df_lists]
        for which in np.searchsorted(np.cumsum(self.sizes), order, side="right").tolist():
            datapoint = next(sources[which], _END)
            if datapoint is _END:
                raise RuntimeError(
                    f"RandomMixData: DataFlow {which} ({type(self.df_lists[which]).__name__}) ended before it yielded "
                    f"the {self.sizes[which]} datapoints of its len(). Make its __len__ exact."
                )
            yield datapoint


class ConcatData(_CombinedData):
    """
    DataFlow that yields the datapoints of several DataFlows, one DataFlow after the other.

    Length: the sum of the lengths.
    Order: that of each, in the order of the list.
    Process: runs in the current process.

    Args:
        df_lists: DataFlows.

    Raises:
        ValueError: `df_lists` is empty.
        TypeError: an element is not a DataFlow.
    """

    state_attributes = ("_index",)
    _index = 0  # of the DataFlow that is being iterated

    def __len__(self) -> int:
        return sum(len(ds) for ds in self.df_lists)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the datapoints of one DataFlow after the other, from the one that was reached."""
        for index in range(self._index if num_done else 0, len(self.df_lists)):
            self._index = index
            yield from self.df_lists[index]


class JoinData(_CombinedData):
    """
    DataFlow that joins the components of several DataFlows into one datapoint.

    [a, b] and [c] become [a, b, c]. Dicts are merged; if they share a key, the last one wins.

    Length: the smallest length; DataFlows that never end do not count.
    Order: that of each. A pass ends with the shortest.
    Process: runs in the current process.

    Args:
        df_lists: DataFlows, either all of lists (or tuples) or all of dicts. A DataFlow that is listed twice
            is reset once and iterated twice, so it must support two iterators at once. Different lengths are
            logged.

    Raises:
        ValueError: `df_lists` is empty; (while iterating) lists and dicts are mixed.
        TypeError: an element is not a DataFlow.

    Example:
        >>> JoinData([images, masks])
    """

    def __init__(self, df_lists: Sequence[DataFlow]) -> None:
        super().__init__(df_lists)
        sizes = [length_or_none(ds) for ds in self.df_lists]
        if None in sizes:
            logger.info("JoinData: not all lengths are known. A pass ends with the shortest DataFlow.")
        elif len(set(sizes)) > 1:
            logger.info(f"JoinData: the lengths {sizes} differ. A pass ends with the shortest DataFlow.")

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

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the joined datapoints that follow."""
        return map(_joined, zip(*self.df_lists))


def _joined(datapoints: Sequence[Datapoint]) -> Datapoint:
    if all(isinstance(datapoint, (list, tuple)) for datapoint in datapoints):
        return [component for datapoint in datapoints for component in datapoint]
    if all(isinstance(datapoint, dict) for datapoint in datapoints):
        return {key: component for datapoint in datapoints for key, component in datapoint.items()}
    forms = ", ".join(type(datapoint).__name__ for datapoint in datapoints)
    raise ValueError(
        f"JoinData: cannot join datapoints of different kinds (expected only lists or only dicts, got {forms}). "
        f"Convert them with MapData first."
    )
