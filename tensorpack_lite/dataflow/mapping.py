"""
DataFlows that apply a function to each datapoint or to one component of it.

In:  datapoints of any DataFlow.
Out: results of the function; None drops a datapoint.
"""

from __future__ import annotations

from collections import abc
from copy import copy
from functools import partial
from typing import Any, Callable, Hashable, Iterator, Sequence

from ..utils.checks import check_callable, check_pickled, check_type
from .base import DataFlow, Datapoint, ProxyDataFlow
from .dropping import DropCounter
from .failure import named_error


class MapData(ProxyDataFlow):
    """
    DataFlow that applies a function to each datapoint.

    Length: that of `ds`; too large if the function drops datapoints.
    Order: that of `ds`.
    Process: runs in the current process. It can be pickled if the function can.

    Args:
        ds: the DataFlow whose datapoints are mapped.
        func: takes a datapoint and returns the new one, or None to drop it. The datapoint is a shallow copy, so the
            function may append to it or replace components. Arrays are not copied: copy them before changing them.

    Raises:
        TypeError: `func` is not callable.
        RuntimeError: (while iterating over data that is repeated without end) `func` dropped a whole pass, and at least
            1000 datapoints in a row.

    Example:
        >>> MapData(df, lambda dp: [dp[0] / 255.0, dp[1]])
        >>> MapData(df, lambda dp: dp if dp[1] < 5 else None)         # only the labels 0 to 4
    """

    # after a pass in which the function returned None for every datapoint: a sentence about it
    dropped_all = ""

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any]) -> None:
        super().__init__(ds)
        self.func = check_callable(f"{type(self).__name__}: func", func)

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_pickled(type(self).__name__, state, "func")
        self.__dict__.update(state)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the results of the function, from the next datapoint of `ds` on."""
        apply, counter = self._apply, DropCounter(type(self).__name__, self.func, self.ds)
        self.dropped_all = ""
        for datapoint in self.ds:
            try:
                mapped = apply(datapoint)
            except Exception as error:  # noqa: BLE001 (raised again, with the name of the function)
                named = named_error(error, self, self.func)
                raise named from named.__cause__
            if mapped is not None:
                counter.kept = True
                yield mapped
                continue
            counter.drop()
            if counter.saw_whole_pass():
                raise counter.error()
        if not num_done:
            self.dropped_all = counter.describe()

    def _apply(self, datapoint: Datapoint) -> Datapoint | None:
        return self.func(copy(datapoint))  # a copy, because the source may keep the original


class MapDataComponent(MapData):
    """
    DataFlow that applies a function to one component of each datapoint.

    Length: that of `ds`; too large if the function drops datapoints.
    Order: that of `ds`.
    Process: runs in the current process. It can be pickled if the function can.

    Args:
        ds: a DataFlow of lists, tuples (which become lists) or dicts.
        func: takes the component and returns the new one, or None to drop the datapoint. Arrays are not copied: copy
            them before changing them.
        index: position of the component, or its key if datapoints are dicts.

    Raises:
        TypeError: `func` is not callable.
        RuntimeError: (while iterating over data that is repeated without end) `func` dropped a whole pass, and at least
            1000 datapoints in a row.

    Example:
        >>> MapDataComponent(df, lambda image: image / 255.0, 0)
        >>> MapDataComponent(df, lambda image: image / 255.0, "image")
    """

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any], index: Hashable = 0) -> None:
        super().__init__(ds, func)
        self.index = index

    def _apply(self, datapoint: Datapoint) -> Datapoint | None:
        component = self.func(datapoint[self.index])
        if component is None:
            return None
        mapped: Datapoint = list(datapoint) if isinstance(datapoint, tuple) else copy(datapoint)
        mapped[self.index] = component
        return mapped


def SelectComponent(ds: DataFlow, idxs: Sequence[Hashable]) -> MapData:  # noqa: N802 (upstream's name)
    """
    Return a MapData that keeps some components, in a given order.

    Args:
        ds: the DataFlow to select components from.
        idxs: positions, or keys if datapoints are dicts. A component may occur more than once.

    Returns:
        A DataFlow of lists, even if the datapoints of `ds` are dicts.

    Raises:
        TypeError: `idxs` is not a list.

    Example:
        >>> SelectComponent(df, [1, 0])                     # label first
        >>> SelectComponent(df, ["image", "label"])         # dicts to lists
    """
    check_type("SelectComponent: idxs", idxs, abc.Iterable, "a list of positions or keys")
    return MapData(ds, partial(_select, list(idxs)))


def _select(idxs: list[Hashable], datapoint: Datapoint) -> list[Any]:
    return [datapoint[index] for index in idxs]
