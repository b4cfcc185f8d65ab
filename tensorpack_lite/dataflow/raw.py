"""
DataFlows that read Python objects: lists, generators, iterables and queues; and random data.

In:  Python objects.
Out: the first DataFlow of a pipeline.
"""

from __future__ import annotations

from collections import abc
from typing import Any, Callable, Iterable, Iterator, Sequence, Union

import numpy as np

from ..utils.checks import check_type
from ..utils.errors import advice_on_keras_model, type_error
from .base import DataFlow, Datapoint, InfiniteLengthError, LengthUnknownError, RNGDataFlow

DType = Union[str, type, np.dtype]


class FakeData(RNGDataFlow):
    """
    Random arrays of given shapes, to try out a model or measure its speed.

    Length: `size`.
    Order: random.
    Process: runs in the current process.

    Args:
        shapes: list with the shape of each component, e.g. `[[64, 224, 224, 3], [64]]`. The shape `[]` is a scalar.
        size: number of datapoints in a pass.
        random: whether to draw new numbers for each datapoint. False draws one datapoint at the start of each pass and
            yields the same arrays `size` times, which takes no time.
        dtype: dtype of all components, or a list with the dtype of each.
        domain: pair (low, high) for all components, or a list with a pair for each. Values are uniform in
            [low, high), and then cast to `dtype`.

    Raises:
        TypeError: `shapes` is not a list of lists.
        ValueError: the list `dtype` or `domain` does not have the length of `shapes`.

    Example:
        >>> FakeData([[8, 28, 28], [8]], size=100, dtype=["float32", "int32"], domain=[(0, 1), (0, 10)])
    """

    _draws_order = True

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        size: int = 1000,
        random: bool = True,
        dtype: DType | Sequence[DType] = "float32",
        domain: Sequence[Any] = (0, 1),
    ) -> None:
        shapes = list(check_type("FakeData: shapes", shapes, abc.Iterable, "a list of shapes"))
        for shape in shapes:
            check_type("FakeData: a shape", shape, abc.Iterable, "a list of integers")
        self.shapes = [tuple(shape) for shape in shapes]
        self.random = random
        self.dtype = self._one_each("dtype", list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes))
        self.domain = self._one_each("domain", list(domain) if np.ndim(domain) > 1 else [domain] * len(shapes))
        self._size = int(size)

    def _one_each(self, name: str, values: list[Any]) -> list[Any]:
        if len(values) != len(self.shapes):
            raise ValueError(
                f"FakeData: {name} has {len(values)} entries for {len(self.shapes)} shapes. "
                f"Pass one for each shape, or a single one for all."
            )
        return values

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[list[Any]]:
        return self.iter_from(0)

    def iter_from(self, num_done: int) -> Iterator[list[Any]]:
        """Yield the number of datapoints that is left."""
        if self.random:
            return (self._draw() for _ in range(num_done, self._size))
        datapoint = self._draw()
        return (datapoint[:] for _ in range(num_done, self._size))

    def _draw(self) -> list[Any]:
        return [
            np.add(self.rng.random_sample(shape) * (high - low), low).astype(dtype)
            for shape, dtype, (low, high) in zip(self.shapes, self.dtype, self.domain)
        ]


class DataFromQueue(DataFlow):
    """
    The datapoints that another thread or process puts into a queue.

    Length: infinite.
    Order: that of the queue.
    Process: runs in the current process. It can be pickled if the queue can.

    Args:
        queue: an object whose `get()` waits for a datapoint and returns it.
    """

    def __init__(self, queue: Any) -> None:
        if not hasattr(queue, "get"):
            raise type_error("DataFromQueue", "a queue (an object with get())", queue)
        self.queue = queue

    def __len__(self) -> int:
        raise InfiniteLengthError("DataFromQueue: has no length; it never ends.")

    def __iter__(self) -> Iterator[Datapoint]:
        return self.iter_from(0)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield what is in the queue."""
        while True:
            yield self.queue.get()

    def _resume_level(self) -> tuple[str, str]:
        return "none", "what was taken from its queue is gone"


class DataFromList(RNGDataFlow):
    """
    The elements of a list.

    Length: `len(lst)`.
    Order: a new random order in each pass, or that of the list.
    Process: runs in the current process.

    Args:
        lst: datapoints with a length and indices from 0: a list, the rows of an array, or a `Dataset` of PyTorch or
            Hugging Face. They are not copied; element k is read when its turn comes.
        shuffle: whether to use a new random order in each pass; requires `reset_state`.

    Raises:
        TypeError: `lst` has no length or cannot be indexed, or it is a table that is indexed by column.

    Example:
        >>> DataFromList([[image, label] for image, label in zip(images, labels)])
    """

    _draws_order = True

    def __init__(self, lst: Sequence[Datapoint], shuffle: bool = True) -> None:
        if not (hasattr(lst, "__len__") and hasattr(lst, "__getitem__")):
            advice = "Use DataFromGenerator or DataFromIterable for an object that can only be iterated."
            raise type_error("DataFromList", "a sequence of datapoints", lst, advice)
        if hasattr(lst, "columns"):
            advice = "It is indexed by column. Use contrib.table.DataFromTable for its rows."
            raise type_error("DataFromList", "a sequence of datapoints", lst, advice)
        self.lst = lst
        self.shuffle = shuffle

    def __len__(self) -> int:
        return len(self.lst)

    def __iter__(self) -> Iterator[Datapoint]:
        return self.iter_from(0)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the elements in the order of this pass, without the first ones."""
        size = len(self.lst)
        order = self.rng.permutation(size).tolist() if self.shuffle else range(size)
        return map(self.lst.__getitem__, order[num_done:])


class DataFromGenerator(DataFlow):
    """
    The datapoints that a generator function yields.

    Length: `len(gen)` if `gen` has a length, otherwise unknown.
    Order: that of the generator.
    Process: runs in the current process. It can be pickled if `gen` can.

    Args:
        gen: a function without arguments that returns an iterable, called once for each pass; or an iterable. A running
            generator can be iterated only once: later passes are empty.

    Raises:
        TypeError: `gen` is neither callable nor iterable.

    Example:
        >>> def numbers():
        ...     for k in range(10):
        ...         yield [k]
        >>> DataFromGenerator(numbers)
    """

    def __init__(self, gen: Union[Callable[[], Iterable[Datapoint]], Iterable[Datapoint]]) -> None:
        if not callable(gen) and not hasattr(gen, "__iter__"):
            raise type_error("DataFromGenerator", "a function that returns an iterable, or an iterable", gen)
        self._gen = gen

    def __len__(self) -> int:
        return _length_of(self, self._gen)

    def __iter__(self) -> Iterator[Datapoint]:
        yield from self._gen() if callable(self._gen) else self._gen

    def _resume_level(self) -> tuple[str, str]:
        return _level_of(self._gen) or super()._resume_level()


class DataFromIterable(DataFlow):
    """
    The elements of an iterable, which is iterated once for each pass.

    Length: `len(iterable)` if it has a length, otherwise unknown.
    Order: that of the iterable.
    Process: runs in the current process. It can be pickled if `iterable` can.

    Args:
        iterable: yields datapoints. A running generator can be iterated only once: later passes are empty.

    Raises:
        TypeError: `iterable` cannot be iterated.
    """

    def __init__(self, iterable: Iterable[Datapoint]) -> None:
        if hasattr(iterable, "columns"):
            advice = "Iterating over it yields columns. Use contrib.table.DataFromTable for its rows."
            raise type_error("DataFromIterable", "an iterable of datapoints", iterable, advice)
        if not hasattr(iterable, "__iter__"):
            raise type_error("DataFromIterable", "an iterable of datapoints", iterable)
        self._iterable = iterable

    def __len__(self) -> int:
        return _length_of(self, self._iterable)

    def __iter__(self) -> Iterator[Datapoint]:
        yield from self._iterable

    def _resume_level(self) -> tuple[str, str]:
        return _level_of(self._iterable) or super()._resume_level()


def how_to_wrap(data: object, call: str = "{}") -> str:
    """
    Return the advice to wrap data that is not a DataFlow, with the class that fits; "" if there is none.

    Args:
        data: the data.
        call: the call that gets the DataFlow, e.g. "QueueInput({})".
    """
    if isinstance(data, (type, str, dict, DataFlow)):
        return ""
    keras = advice_on_keras_model(data)
    if keras:
        return keras
    if _are_columns(data):
        flow = call.format("BatchData(DataFromList(list(zip(X, Y))), 32)")
        return f"These are arrays, not datapoints: {flow}."
    if hasattr(data, "element_spec"):
        function = call.format("contrib.tf_data.DataFromTFDataset(function)")
        return f"For training, use data=TFDatasetInput(data). Elsewhere, {function}, where the function returns the dataset."
    if hasattr(data, "columns"):
        name = "contrib.table.DataFromTable"
    elif hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        name = "DataFromList"
    elif hasattr(data, "__iter__"):
        name = "DataFromIterable"
    else:
        name = "DataFromGenerator" if callable(data) else ""
    return f"Wrap it: {call.format(f'{name}(data)')}." if name else ""


def _are_columns(data: object) -> bool:
    """Return whether data is a list or tuple of arrays of equal length, as the arguments of Keras' `fit` are."""
    if not isinstance(data, (list, tuple)) or len(data) < 2:
        return False
    return all(isinstance(array, np.ndarray) and array.ndim for array in data) and len(set(map(len, data))) == 1


def _level_of(source: object) -> tuple[str, str] | None:
    return ("none", "a running generator cannot begin again") if isinstance(source, Iterator) else None


def _length_of(dataflow: DataFlow, source: Any) -> int:
    # ask the type, because `gen` may be the class `list`, which has a `__len__`
    if not hasattr(type(source), "__len__"):
        name = type(dataflow).__name__
        raise LengthUnknownError(f"{name}: has no length, because its {type(source).__name__} has none.")
    return len(source)
