"""
One datapoint in, one out: functions applied to datapoints and to their components.

In:  datapoints of any DataFlow.
Out: what the function makes of them; None drops a datapoint.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any, Callable, Iterator, Sequence

from ..utils.errors import type_error
from .base import DataFlow, Datapoint, ProxyDataFlow
from .dropping import DropWatch

__all__ = ["MapData", "MapDataComponent", "SelectComponent"]


class MapData(ProxyDataFlow):
    """
    Apply a function to each datapoint.

    Length: that of `ds`; wrong when the function drops datapoints.
    Order: that of `ds`.
    Process: stays in this one. It can be pickled if the function can.

    Args:
        ds: the DataFlow whose datapoints are mapped.
        func: takes a datapoint and returns the new one, or None to drop it. The datapoint is a shallow copy: the
            function may append to it or replace components, but an array that it changes in place is changed for
            everybody.

    Raises:
        TypeError: `func` cannot be called.
        RuntimeError: while iterating over data that is repeated without end: `func` dropped every datapoint of a whole
            pass, and at least 1000.

    Example:
        >>> MapData(df, lambda dp: [dp[0] / 255.0, dp[1]])
        >>> MapData(df, lambda dp: dp if dp[1] < 5 else None)         # only the labels 0 to 4

    tensorpack: same.
    """

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any]) -> None:
        super().__init__(ds)
        if not callable(func):
            raise type_error(type(self).__name__, "a function", func)
        self.func = func

    def __iter__(self) -> Iterator[Datapoint]:
        func, watch = self.func, DropWatch(type(self).__name__, self.func, self.ds)
        for datapoint in self.ds:
            mapped = func(copy(datapoint))  # copied, because the source may keep the original
            if mapped is not None:
                watch.kept = True
                yield mapped
            else:
                _drop(watch)


class MapDataComponent(MapData):
    """
    Apply a function to one component of each datapoint.

    Length: that of `ds`; wrong when the function drops datapoints.
    Order: that of `ds`.
    Process: stays in this one. It can be pickled if the function can.

    Args:
        ds: datapoints are lists, tuples (which become lists) or dicts.
        func: takes the component and returns the new one, or None to drop the datapoint. An array that it changes in
            place is changed for everybody.
        index: position of the component, or its key when datapoints are dicts.

    Raises:
        TypeError: `func` cannot be called.
        RuntimeError: while iterating over data that is repeated without end: `func` dropped every datapoint of a whole
            pass, and at least 1000.

    Example:
        >>> MapDataComponent(df, lambda image: image / 255.0, 0)
        >>> MapDataComponent(df, lambda image: image / 255.0, "image")

    tensorpack: same.
    """

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any], index: Any = 0) -> None:
        super().__init__(ds, func)
        self.index = index

    def __iter__(self) -> Iterator[Datapoint]:
        func, index, watch = self.func, self.index, DropWatch(type(self).__name__, self.func, self.ds)
        for datapoint in self.ds:
            component = func(datapoint[index])
            if component is None:
                _drop(watch)
            else:
                watch.kept = True
                mapped = list(datapoint) if isinstance(datapoint, tuple) else copy(datapoint)
                mapped[index] = component
                yield mapped


def SelectComponent(ds: DataFlow, idxs: Sequence[Any]) -> MapData:  # noqa: N802 (upstream's name)
    """
    Function: returns a MapData that keeps some components, in a given order.

    Args:
        ds: the DataFlow whose datapoints are cut down.
        idxs: positions, or keys when datapoints are dicts. A component may be taken twice.

    Returns:
        A DataFlow whose datapoints are lists, also when those of `ds` are dicts.

    Example:
        >>> SelectComponent(df, [1, 0])                     # label first
        >>> SelectComponent(df, ["image", "label"])         # dicts to lists

    tensorpack: same; there the result cannot be pickled.
    """
    return MapData(ds, partial(_select, list(idxs)))


def _drop(watch: DropWatch) -> None:
    watch.drop()
    if watch.saw_whole_pass():
        raise watch.error()


def _select(idxs: list[Any], datapoint: Datapoint) -> list[Any]:
    return [datapoint[index] for index in idxs]
