"""
Batching: datapoints are stacked along a new first axis.

In:  datapoints of any DataFlow, lists or dicts.
Out: batches, which are datapoints of the same kind.
"""

from __future__ import annotations

import itertools
from typing import Any, Dict, Hashable, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from ..utils.checks import check_at_least
from .base import DataFlow, Datapoint, ProxyDataFlow, length_or_none
from .exact.holds_back import HoldsBack
from .exact.numbered_source import Numbered

_PYTHON_TYPES = {bool: np.dtype("bool"), int: np.dtype("int32"), float: np.dtype("float32")}
_NUMBERS = "biufc"  # kinds of NumPy dtypes: bool, int, uint, float, complex

Groups = Dict[Tuple[int, ...], List[Numbered]]  # by shape


class BatchData(ProxyDataFlow):
    """
    DataFlow that stacks `batch_size` datapoints into a batch.

    A component of shape [H, W] becomes [batch_size, H, W]. The first datapoint of a batch determines the dtypes:

    - an array or a NumPy scalar: its dtype;
    - a Python bool, int or float: bool, int32 or float32;
    - a str: NumPy's `<U`; bytes: object, because NumPy's bytes dtype drops trailing zeros.

    Length: `len(ds) // batch_size`, plus one for a remainder that is kept.
    Order: that of `ds`.
    Process: runs in the current process.

    Args:
        ds: a DataFlow of lists, tuples (which become lists) or dicts. Datapoints of a batch must have equal shapes.
        batch_size: number of datapoints in a batch; >= 1.
        remainder: whether to yield the last, smaller batch of a pass. Otherwise it is dropped.
        use_list: whether each component becomes a list of its `batch_size` values instead of an array. The shapes may
            then differ.

    Raises:
        ValueError: `batch_size` is below 1, or larger than `ds` without `remainder`; (while iterating)
            datapoints cannot be stacked.
        TypeError: (while iterating) a component is not an array, a number, str or bytes.

    Example:
        >>> BatchData(DataFromList([[np.zeros((28, 28)), 3]] * 100), 32)     # [float64 (32, 28, 28), int32 (32,)]

    Difference from tensorpack: tensorpack converts bool to int32 and casts later values to the dtype of the
    first one even if they do not fit. Here a bool stays bool, and a value that does not fit (2.5 among
    integers) raises ValueError.
    """

    state_attributes: Sequence[str] = ("_is_over",)
    _is_over = False  # whether the pass of `ds` has ended

    def __init__(self, ds: DataFlow, batch_size: int, remainder: bool = False, use_list: bool = False) -> None:
        super().__init__(ds)
        self.batch_size = int(check_at_least(f"{type(self).__name__}: batch_size", batch_size, 1))
        self.remainder = remainder
        self.use_list = use_list
        length = None if remainder else length_or_none(ds)
        if length is not None and self.batch_size > length:
            raise ValueError(
                f"{type(self).__name__}: batch_size {self.batch_size} is larger than the {length} datapoints of "
                f"{type(ds).__name__}, so there would be no batch. Decrease it, or use BatchData(..., remainder=True)."
            )

    def __len__(self) -> int:
        batches, remainder = divmod(len(self.ds), self.batch_size)
        return batches + (1 if remainder and self.remainder else 0)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield batches, from the next datapoint of `ds` on."""
        datapoints = iter(()) if num_done and self._is_over else iter(self.ds)
        while True:
            holder = list(itertools.islice(datapoints, self.batch_size))
            self._is_over = is_over = len(holder) < self.batch_size
            if not is_over or (holder and self.remainder):
                # No variable keeps the batch or its datapoints, which may lie in slots of shared memory that a worker needs.
                holder = [self.aggregate_batch(holder, self.use_list)]
                yield holder.pop()
            if is_over:  # not the attribute, which another iterator may have set since
                return

    @staticmethod
    def aggregate_batch(data_holder: Sequence[Datapoint], use_list: bool = False) -> Datapoint:
        """
        Stack datapoints into a batch.

        Args:
            data_holder: at least one datapoint; either lists (or tuples) of one length, or dicts with the same keys.
            use_list: whether each component becomes a list of its values instead of an array.

        Returns:
            A list of components; a dict if the datapoints are dicts.

        Raises:
            ValueError: the datapoints cannot be stacked.
            TypeError: a component is not an array, a number, str or bytes.
        """
        return stack_datapoints("BatchData", data_holder, use_list)


class BatchDataByShape(HoldsBack, BatchData):
    """
    DataFlow that stacks datapoints with equal shapes.

    Datapoints are grouped by the shape of one component. A batch is yielded as soon as a group has `batch_size`
    datapoints. Incomplete groups are kept for the next pass.

    Length: `len(ds) // batch_size`, which is an estimate.
    Order: that in which groups become complete. Datapoints of a rare shape may never be yielded.
    Process: runs in the current process.

    Args:
        ds: as for BatchData.
        batch_size: number of datapoints in a batch; >= 1.
        idx: the component whose shape is used: its position, or its key if datapoints are dicts.

    Raises:
        ValueError: `batch_size` is below 1, or larger than `ds`.
        RuntimeError: there is a second iterator.

    Example:
        >>> BatchDataByShape(images_of_many_sizes, 8, idx=0)
    """

    state_attributes: Sequence[str] = ()

    def __init__(self, ds: DataFlow, batch_size: int, idx: Hashable) -> None:
        BatchData.__init__(self, ds, batch_size, remainder=False)
        HoldsBack.__init__(self, ds, capacity=10 * self.batch_size)
        self.idx = idx

    def advance(self, held: Groups, source: Iterator[Numbered], num_done: int) -> Iterator[Datapoint]:
        """Yield a batch as soon as a group is complete."""
        for numbered in source:
            shape = np.shape(numbered[1][self.idx])
            group = held.setdefault(shape, [])
            group.append(numbered)
            if len(group) == self.batch_size:
                del held[shape]
                yield stack_datapoints("BatchDataByShape", [datapoint for _, datapoint in group])

    def arrange(self, held: list[Numbered]) -> Groups:
        """Group the datapoints by shape."""
        groups: Groups = {}
        for number, datapoint in held:
            groups.setdefault(np.shape(datapoint[self.idx]), []).append((number, datapoint))
        return groups


class Column(NamedTuple):
    """
    The values of one component, which are to be stacked.

    Attributes:
        who: the stage that stacks them, for error messages.
        name: position or key of the component.
        values: one of each datapoint.
    """

    who: str
    name: object
    values: Sequence[Any]


def stack_datapoints(who: str, datapoints: Sequence[Datapoint], use_list: bool = False) -> Datapoint:
    """
    Stack datapoints into a batch, as `BatchData.aggregate_batch`.

    Args:
        who: the name of the stage, for error messages.
        datapoints: at least one.
        use_list: whether each component becomes a list of its values instead of an array.
    """
    if not datapoints:
        raise ValueError(f"{who}: data_holder is empty; expected at least one datapoint.")
    first = datapoints[0]
    stack = _listed if use_list else stack_component
    if isinstance(first, dict):
        _require_one_form(who, datapoints, dict, set(first))
        return {key: stack(Column(who, key, [datapoint[key] for datapoint in datapoints])) for key in first}
    if isinstance(first, (list, tuple)):
        _require_one_form(who, datapoints, (list, tuple), len(first))
        return [stack(Column(who, index, values)) for index, values in enumerate(zip(*datapoints))]
    raise ValueError(
        f"{who}: the datapoint is not a list, a tuple or a dict, got {type(first).__name__}. Yield [x] instead of x."
    )


def _listed(column: Column) -> list[Any]:
    return list(column.values)


def stack_component(column: Column) -> np.ndarray:
    """
    Stack the values of one component. `np.array` on a list is the fastest way to do it in NumPy.

    Raises:
        ValueError, TypeError: as `BatchData.aggregate_batch`.
    """
    values = column.values
    first = values[0]
    if isinstance(first, (str, bytes)):
        return _stacked_text(column)
    dtype = _dtype_of(column)
    if not isinstance(dtype, np.dtype):  # tensors of another library
        return stack_component(column._replace(values=[np.asarray(value) for value in values]))
    try:
        stacked = np.array(values)
    except (ValueError, TypeError, Warning) as error:  # the type depends on the version of NumPy
        raise _cannot_stack(column) from error
    if stacked.shape != (len(values), *np.shape(first)):  # NumPy < 1.24 makes an array of objects
        raise _cannot_stack(column)  # pragma: no cover
    if dtype.kind in "SU" and any(np.asarray(value).dtype.kind != dtype.kind for value in values):
        raise _cannot_stack(column)  # NumPy would convert numbers to text
    return stacked if stacked.dtype == dtype else _cast(column, stacked, dtype)


def _stacked_text(column: Column) -> np.ndarray:
    kind = str if isinstance(column.values[0], str) else bytes
    if not all(isinstance(value, kind) for value in column.values):
        raise _cannot_stack(column)
    return np.array(column.values) if kind is str else np.array(column.values, dtype=object)


def _dtype_of(column: Column) -> object:
    first = column.values[0]
    dtype = getattr(first, "dtype", _PYTHON_TYPES.get(type(first)))
    if dtype is None:
        or_use = ", or use BatchData(..., use_list=True)" if column.who == "BatchData" else ""
        raise TypeError(
            f"{column.who}: component {column.name!r} is a {type(first).__name__}, which cannot be stacked. Convert it to an array "
            f"with MapData before {column.who}{or_use}."
        )
    return dtype


def _cast(column: Column, stacked: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert a batch to the dtype of its first datapoint, if all values fit."""
    if stacked.dtype.kind == dtype.kind and dtype.kind not in _NUMBERS:
        return stacked  # NumPy has chosen the longest text or the finest unit of time
    if stacked.dtype.kind not in _NUMBERS or dtype.kind not in _NUMBERS:
        raise _cannot_stack(column)
    if stacked.dtype.kind == "c" and dtype.kind != "c":
        raise _cannot_stack(column)
    with np.errstate(invalid="ignore"):  # NaN to int; the comparison below finds it
        cast = stacked.astype(dtype)
    if dtype.kind in "biu" and not np.array_equal(cast, stacked):
        raise _cannot_stack(column, f"values do not fit {dtype}, the type of the first one: ")
    return cast


def _require_one_form(who: str, datapoints: Sequence[Datapoint], kinds: Any, expected: object) -> None:
    for datapoint in datapoints:
        if not isinstance(datapoint, kinds):
            forms = sorted({type(dp).__name__ for dp in datapoints})
            raise ValueError(f"{who}: datapoints of one batch have different types: {', '.join(forms)}.")
        if (datapoint.keys() if kinds is dict else len(datapoint)) != expected:
            raise ValueError(
                f"{who}: datapoints of one batch have different components: the first has {_components(datapoints[0])}, "
                f"another has {_components(datapoint)}. All datapoints must have the same components."
            )


def find_batch_size(ds: object) -> int | None:
    """
    Return the number of samples in a datapoint of a pipeline.

    Args:
        ds: the last stage.

    Returns:
        The product of the sizes of all BatchData that it reads one after the other; None if there is none.
    """
    size = None
    for stage in find_batch_stages(ds):
        size = stage.batch_size * (size or 1)
    return size


def find_batch_stages(ds: object) -> Iterator[BatchData]:
    """Yield the BatchData that a pipeline reads one after the other, from its last stage on."""
    while isinstance(ds, ProxyDataFlow):
        if isinstance(ds, BatchData):
            yield ds
        ds = ds.ds


def _components(datapoint: Datapoint) -> str:
    return f"the keys {list(datapoint)}" if isinstance(datapoint, dict) else str(len(datapoint))


def _cannot_stack(column: Column, why: str = "") -> ValueError:
    who, name, values = column
    shapes = sorted({str(np.shape(value)) for value in values})
    types = sorted({str(getattr(value, "dtype", type(value).__name__)) for value in values})
    groups = f", group them with BatchDataByShape(ds, batch_size, {name!r}), or use BatchData(..., use_list=True)"
    return ValueError(
        f"{who}: component {name!r} cannot be stacked: {why}shapes {', '.join(shapes)}; types {', '.join(types)}. "
        f"Make them equal with MapData before {who}{groups if who == 'BatchData' else ''}."
    )
