"""
Where datapoints come from: lists, generators, queues, or nothing at all.

In:  Python objects.
Out: the first DataFlow of a pipeline.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Sequence, Union

import numpy as np

from ..utils.errors import type_error
from .base import DataFlow, Datapoint, InfiniteLengthError, LengthUnknownError, RNGDataFlow

__all__ = ["DataFromGenerator", "DataFromIterable", "DataFromList", "DataFromQueue", "FakeData"]


class FakeData(RNGDataFlow):
    """
    Random arrays of given shapes, for trying out a model and measuring its speed.

    Length: `size`.
    Order: random.
    Process: stays in this one.

    Args:
        shapes: one shape for each component, e.g. `[[64, 224, 224, 3], [64]]`. The shape `[]` gives a scalar.
        size: datapoints in a pass.
        random: draw each datapoint anew; False draws one at the start of each pass and yields the same arrays `size`
            times, which costs nothing.
        dtype: of all components, or a list with one for each.
        domain: values are uniform in [low, high), then cast to `dtype`: one pair for all components, or a list of pairs.

    Raises:
        ValueError: a list is not as long as `shapes`.

    Example:
        >>> FakeData([[8, 28, 28], [8]], size=100, dtype=["float32", "int32"], domain=[(0, 1), (0, 10)])

    tensorpack: same; there a scalar shape fails, and the length of `domain` is not checked.
    """

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        size: int = 1000,
        random: bool = True,
        dtype: Any = "float32",
        domain: Any = (0, 1),
    ) -> None:
        self.shapes = [tuple(shape) for shape in shapes]
        self.random = random
        self.dtype = self._one_each(
            "dtype", list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes)
        )
        self.domain = self._one_each(
            "domain", list(domain) if np.ndim(domain) > 1 else [domain] * len(shapes)
        )
        self._size = int(size)

    def _one_each(self, name: str, values: list[Any]) -> list[Any]:
        if len(values) != len(self.shapes):
            raise ValueError(
                f"FakeData: {name} has {len(values)} entries for {len(self.shapes)} shapes. "
                f"Give one for each shape, or a single one for all."
            )
        return values

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[list[Any]]:
        if self.random:
            for _ in range(self._size):
                yield self._draw()
        else:
            datapoint = self._draw()
            for _ in range(self._size):
                yield datapoint[:]

    def _draw(self) -> list[Any]:
        return [
            np.add(self.rng.random_sample(shape) * (high - low), low).astype(dtype)
            for shape, dtype, (low, high) in zip(self.shapes, self.dtype, self.domain)
        ]


class DataFromQueue(DataFlow):
    """
    What somebody else puts into a queue.

    Length: none; it never ends.
    Order: that of the queue.
    Process: stays in this one. It can be pickled if the queue can.

    Args:
        queue: anything with a blocking `get()` that returns a datapoint.

    tensorpack: same.
    """

    def __init__(self, queue: Any) -> None:
        if not hasattr(queue, "get"):
            raise type_error("DataFromQueue", "a queue (an object with get())", queue)
        self.queue = queue

    def __len__(self) -> int:
        raise InfiniteLengthError("DataFromQueue: has no length; it never ends.")

    def __iter__(self) -> Iterator[Datapoint]:
        while True:
            yield self.queue.get()


class DataFromList(RNGDataFlow):
    """
    The elements of a list.

    Length: `len(lst)`.
    Order: a new random one each pass, or that of the list.
    Process: stays in this one.

    Args:
        lst: datapoints, in any sequence (an array's rows too). They are yielded as they are, not copied.
        shuffle: in a new random order each pass; needs `reset_state`.

    Raises:
        TypeError: `lst` has no length or cannot be indexed.

    Example:
        >>> DataFromList([[image, label] for image, label in zip(images, labels)])

    tensorpack: same.
    """

    def __init__(self, lst: Sequence[Datapoint], shuffle: bool = True) -> None:
        if not (hasattr(lst, "__len__") and hasattr(lst, "__getitem__")):
            advice = "Use DataFromGenerator or DataFromIterable for what can only be iterated."
            raise type_error("DataFromList", "a sequence of datapoints", lst, advice)
        self.lst = lst
        self.shuffle = shuffle

    def __len__(self) -> int:
        return len(self.lst)

    def __iter__(self) -> Iterator[Datapoint]:
        if not self.shuffle:
            yield from self.lst
            return
        for index in self.rng.permutation(len(self.lst)).tolist():
            yield self.lst[index]


class DataFromGenerator(DataFlow):
    """
    What a generator function yields.

    Length: `len(gen)` where there is one, otherwise none.
    Order: that of the generator.
    Process: stays in this one. It can be pickled if `gen` can.

    Args:
        gen: a function without arguments that returns an iterable, called anew for each pass; or an iterable. A
            running generator is an iterable for one pass only: the passes after it are empty.

    Raises:
        TypeError: `gen` can neither be called nor iterated.

    Example:
        >>> def numbers():
        ...     for k in range(10):
        ...         yield [k]
        >>> DataFromGenerator(numbers)

    tensorpack: same; there `len` raises TypeError, so that `BatchData(DataFromGenerator(f), 4)` cannot be built.
    """

    def __init__(self, gen: Union[Callable[[], Iterable[Datapoint]], Iterable[Datapoint]]) -> None:
        if not callable(gen) and not hasattr(gen, "__iter__"):
            raise type_error("DataFromGenerator", "a function that returns an iterable, or an iterable", gen)
        self._gen = gen

    def __len__(self) -> int:
        return _length_of(self, self._gen)

    def __iter__(self) -> Iterator[Datapoint]:
        yield from self._gen() if callable(self._gen) else self._gen


class DataFromIterable(DataFlow):
    """
    The elements of something that can be iterated, again and again.

    Length: `len(iterable)` where there is one, otherwise none.
    Order: that of the iterable.
    Process: stays in this one. It can be pickled if `iterable` can.

    Args:
        iterable: datapoints. A running generator is an iterable for one pass only.

    Raises:
        TypeError: `iterable` cannot be iterated.

    tensorpack: same.
    """

    def __init__(self, iterable: Iterable[Datapoint]) -> None:
        if not hasattr(iterable, "__iter__"):
            raise type_error("DataFromIterable", "an iterable of datapoints", iterable)
        self._iterable = iterable

    def __len__(self) -> int:
        return _length_of(self, self._iterable)

    def __iter__(self) -> Iterator[Datapoint]:
        yield from self._iterable


def _length_of(dataflow: DataFlow, source: Any) -> int:
    if not hasattr(type(source), "__len__"):  # of the type: the class `list` has one for its lists
        name = type(dataflow).__name__
        raise LengthUnknownError(f"{name}: has no length; its {type(source).__name__} does not tell one.")
    return len(source)
