"""
From datapoints to batches: a new first axis in front of every component.

In:  datapoints, list or dict, of any DataFlow.
Out: datapoints of the same form, `batch_size` of them stacked.
"""

from __future__ import annotations

import itertools
from typing import Any, Iterator, Sequence

import numpy as np

from .base import DataFlow, DataFlowReentrantGuard, Datapoint, ProxyDataFlow

__all__ = ["BatchData", "BatchDataByShape"]

_PYTHON_TYPES = {bool: np.dtype("bool"), int: np.dtype("int32"), float: np.dtype("float32")}
_NUMBERS = "biufc"  # kinds of NumPy types: bool, int, uint, float, complex


class BatchData(ProxyDataFlow):
    """
    Stack `batch_size` datapoints into one.

    A component of shape [H, W] becomes [batch_size, H, W]. The first datapoint of a batch decides its types:

    - an array, or a NumPy scalar: its dtype;
    - a Python bool, int, float: bool, int32, float32;
    - a str: NumPy's `<U`; bytes: object, so that nothing is cut off.

    Length: `len(ds) // batch_size`, and one more for a remainder that is kept.
    Order: that of `ds`.
    Process: stays in this one.

    Args:
        ds: its datapoints are lists, tuples (which become lists) or dicts; all of a batch of one form and one shape.
        batch_size: datapoints in a batch; > 0.
        remainder: also yield the last, smaller batch of a pass. Without it what is left at the end of a pass is dropped.
        use_list: each component becomes the list of its `batch_size` values, not stacked: for shapes that differ.

    Raises:
        ValueError: `batch_size` is not positive, or larger than `ds` (and no remainder); while iterating: datapoints
            that cannot be stacked.
        TypeError: while iterating: a component that is neither an array nor a number, str or bytes.

    Example:
        >>> BatchData(DataFromList([[np.zeros((28, 28)), 3]] * 100), 32)     # [float64 (32, 28, 28), int32 (32,)]

    tensorpack: same; there a bool becomes int32 and bytes become str, later values are cast to the first one's type
        whatever is lost (2.5 among integers is an error here), and a component that cannot be stacked becomes None.
    """

    def __init__(
        self, ds: DataFlow, batch_size: int, remainder: bool = False, use_list: bool = False
    ) -> None:
        super().__init__(ds)
        self.batch_size = int(batch_size)
        self.remainder = remainder
        self.use_list = use_list
        if self.batch_size <= 0:
            raise ValueError(f"{type(self).__name__}: batch_size must be positive, got {batch_size}.")
        if not remainder:
            self._require_enough()

    def _require_enough(self) -> None:
        try:
            length = len(self.ds)
        except NotImplementedError:
            return
        if self.batch_size > length:
            raise ValueError(
                f"{type(self).__name__}: batch_size {self.batch_size} is larger than the {length} datapoints of "
                f"{type(self.ds).__name__}, so there would be no batch. Use a smaller one, or BatchData(..., remainder=True)."
            )

    def __len__(self) -> int:
        batches, rest = divmod(len(self.ds), self.batch_size)
        return batches + (1 if rest and self.remainder else 0)

    def __iter__(self) -> Iterator[Datapoint]:
        datapoints = iter(self.ds)
        while True:
            holder = list(itertools.islice(datapoints, self.batch_size))
            if len(holder) == self.batch_size or (holder and self.remainder):
                yield self.aggregate_batch(holder, self.use_list)
            if len(holder) < self.batch_size:
                return

    @staticmethod
    def aggregate_batch(data_holder: Sequence[Datapoint], use_list: bool = False) -> Datapoint:
        """
        Stack datapoints into one.

        Args:
            data_holder: at least one datapoint; all lists (or tuples) of one length, or all dicts with the same keys.
            use_list: do not stack; each component becomes the list of its values.

        Returns:
            A list of components, or a dict for dicts.

        Raises:
            ValueError: the datapoints do not fit together.
            TypeError: a component that is neither an array nor a number, str or bytes.

        tensorpack: same; see the class.
        """
        if not data_holder:
            raise ValueError("BatchData: a batch needs at least one datapoint, got none.")
        first = data_holder[0]
        stack = _listed if use_list else _stacked
        if isinstance(first, dict):
            _require_one_form(data_holder, dict, set(first))
            return {key: stack(key, [datapoint[key] for datapoint in data_holder]) for key in first}
        if isinstance(first, (list, tuple)):
            _require_one_form(data_holder, (list, tuple), len(first))
            return [stack(index, column) for index, column in enumerate(zip(*data_holder))]
        raise ValueError(
            f"BatchData: a datapoint is a list, a tuple or a dict, got {type(first).__name__}. "
            f"Yield [x] where you now yield x."
        )


class BatchDataByShape(BatchData):
    """
    Stack datapoints of equal shape, whatever order they come in.

    Datapoints are collected by the shape of one component; as soon as `batch_size` of a shape are there, they are a
    batch. What is still waiting at the end of a pass waits on in the next one.

    Length: `len(ds) // batch_size`, which is a guess: batches are yielded when they are full.
    Order: that in which batches become full. Rare shapes may never come.
    Process: stays in this one.

    Args:
        ds: as for BatchData.
        batch_size: datapoints in a batch; > 0.
        idx: the component whose shape counts: its position, or its key when datapoints are dicts.

    Raises:
        ValueError: `batch_size` is not positive, or larger than `ds`.
        RuntimeError: iterated twice at once.

    Example:
        >>> BatchDataByShape(images_of_many_sizes, 8, idx=0)

    tensorpack: same.
    """

    def __init__(self, ds: DataFlow, batch_size: int, idx: Any) -> None:
        super().__init__(ds, batch_size, remainder=False)
        self.idx = idx
        self._guard = DataFlowReentrantGuard()
        self._waiting: dict[tuple[int, ...], list[Datapoint]] = {}

    def reset_state(self) -> None:
        """Reset `ds`; nothing is waiting."""
        super().reset_state()
        self._waiting = {}

    def __iter__(self) -> Iterator[Datapoint]:
        with self._guard:
            for datapoint in self.ds:
                shape = np.shape(datapoint[self.idx])
                holder = self._waiting.setdefault(shape, [])
                holder.append(datapoint)
                if len(holder) == self.batch_size:
                    del self._waiting[shape]
                    yield self.aggregate_batch(holder)


def _listed(name: Any, column: Sequence[Any]) -> list[Any]:
    return list(column)


def _stacked(name: Any, column: Sequence[Any]) -> np.ndarray:
    """Stack the values of one component; `np.array` on a list is the fastest single pass NumPy has."""
    first = column[0]
    if isinstance(first, (str, bytes)):
        return _stacked_text(name, column)
    dtype = _dtype_of(name, first)
    if not isinstance(dtype, np.dtype):  # tensors of another library
        return _stacked(name, [np.asarray(value) for value in column])
    try:
        stacked = np.array(column)
    except (ValueError, TypeError, Warning) as error:  # shapes differ: each NumPy says it in its own way
        raise _cannot_stack(name, column) from error
    if stacked.shape != (len(column), *np.shape(first)):  # NumPy < 1.24 makes an array of objects
        raise _cannot_stack(name, column)  # pragma: no cover
    if dtype.kind in "SU" and any(np.asarray(value).dtype.kind != dtype.kind for value in column):
        raise _cannot_stack(name, column)  # NumPy makes text of numbers
    return stacked if stacked.dtype == dtype else _cast(name, column, stacked, dtype)


def _stacked_text(name: Any, column: Sequence[Any]) -> np.ndarray:
    kind = str if isinstance(column[0], str) else bytes
    if not all(isinstance(value, kind) for value in column):
        raise _cannot_stack(name, column)
    return np.array(column) if kind is str else np.array(column, dtype=object)


def _dtype_of(name: Any, first: Any) -> Any:
    dtype = getattr(first, "dtype", _PYTHON_TYPES.get(type(first)))
    if dtype is None:
        raise TypeError(
            f"BatchData: component {name!r} is a {type(first).__name__}, which cannot be stacked. Make it an array in "
            f"a MapData before BatchData, or use BatchData(..., use_list=True)."
        )
    return dtype


def _cast(name: Any, column: Sequence[Any], stacked: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Give a batch the type of its first datapoint, if its values have room in it."""
    if stacked.dtype.kind == dtype.kind and dtype.kind not in _NUMBERS:
        return stacked  # texts and times: the longest, the finest
    if stacked.dtype.kind not in _NUMBERS or dtype.kind not in _NUMBERS:
        raise _cannot_stack(name, column)
    if stacked.dtype.kind == "c" and dtype.kind != "c":
        raise _cannot_stack(name, column)
    with np.errstate(invalid="ignore"):  # NaN to int, found in the next line
        cast = stacked.astype(dtype)
    if dtype.kind in "biu" and not np.array_equal(cast, stacked):
        raise _cannot_stack(name, column, f"values do not fit the type of the first one, {dtype}: ")
    return cast


def _require_one_form(data_holder: Sequence[Datapoint], kinds: Any, wanted: Any) -> None:
    for datapoint in data_holder:
        if not isinstance(datapoint, kinds):
            forms = sorted({type(dp).__name__ for dp in data_holder})
            raise ValueError(f"BatchData: datapoints of one batch have different forms: {', '.join(forms)}.")
        if (datapoint.keys() if kinds is dict else len(datapoint)) != wanted:
            raise ValueError(
                f"BatchData: datapoints of one batch have different components: the first has {_components(data_holder[0])}, "
                f"another has {_components(datapoint)}. Every datapoint must have the same."
            )


def _components(datapoint: Datapoint) -> str:
    return f"the keys {list(datapoint)}" if isinstance(datapoint, dict) else str(len(datapoint))


def _cannot_stack(name: Any, column: Sequence[Any], why: str = "") -> ValueError:
    shapes = sorted({str(np.shape(value)) for value in column})
    types = sorted({str(getattr(value, "dtype", type(value).__name__)) for value in column})
    return ValueError(
        f"BatchData: component {name!r} cannot be stacked: {why}shapes {', '.join(shapes)}; types {', '.join(types)}. "
        f"Make them equal in a MapData before BatchData, group them with BatchDataByShape(ds, batch_size, {name!r}), or "
        f"use BatchData(..., use_list=True)."
    )
