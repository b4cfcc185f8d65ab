"""
The contract of all data: a DataFlow yields datapoints, one by one.

In:  nothing; leaves of a pipeline read files, arrays or generators.
Out: datapoints. A datapoint is a list of components, or a dict of them; tuples are tolerated.

The life of a DataFlow has three parts::

    df = BatchData(DataFromList(data), 32)      build:    cheap, can be pickled and sent to another process
    df.reset_state()                            reset:    once, in the process that will iterate, before it does
    for image, label in df:                     iterate:  as often as wanted, one pass after the other
        ...

Trainers, InputSources and runners do the second part for the DataFlows they are given.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from typing import Any, Iterator, NoReturn

import numpy as np

from ..utils.errors import type_error
from ..utils.utils import get_rng

__all__ = [
    "DataFlow",
    "DataFlowReentrantGuard",
    "DataFlowTerminated",
    "Datapoint",
    "InfiniteLengthError",
    "LengthUnknownError",
    "NotResetError",
    "ProxyDataFlow",
    "RNGDataFlow",
    "require_dataflow",
    "require_process",
    "reset_each_once",
]

Datapoint = Any  # List[Any] or Dict[Any, Any]; Any, because it is indexed by position or by key


class LengthUnknownError(NotImplementedError, TypeError):
    """
    The length of a DataFlow is not known, for example because it reads from a generator.

    It is a NotImplementedError, which callers of tensorpack's `size()` catch, and also a TypeError, which `list(df)` and
    `tqdm(df)` expect from an object that does not know its length beforehand.
    """


class InfiniteLengthError(LengthUnknownError):
    """A pass of a DataFlow never ends."""


class NotResetError(RuntimeError, AttributeError):
    """A random DataFlow was iterated before its `reset_state`."""


class DataFlowTerminated(BaseException):
    """
    No valid iterator can be had any more: what the data came from was closed.

    Whoever iterates treats it as the end of the data, not as an error. It is no Exception, so that
    `except Exception` in a pipeline does not swallow it.

    tensorpack: same.
    """


def _first_with(cls: type, *names: str) -> Any:
    """Return the first class, from `cls` towards `object`, that defines a method of one of these names."""
    return next(base for base in cls.__mro__ if any(callable(base.__dict__.get(name)) for name in names))


class DataFlow(ABC):
    """
    Base of everything that yields datapoints. Subclasses define `__iter__` and, if they can, `__len__` and `reset_state`.

    Length: not known, unless `__len__` is defined.
    Order: up to the subclass.
    Process: may be pickled before `reset_state`; belongs to one process after it.

    Example:
        >>> class Squares(DataFlow):
        ...     def __iter__(self):
        ...         for k in range(10):
        ...             yield [k, k * k]
        ...     def __len__(self):
        ...         return 10

    Note:
        A class may define the methods under their old names, `get_data` and `size`; in each class both names of a
        method mean the same function, so old and new classes can inherit from and wrap each other.

    tensorpack: same; there `super().get_data()` in a class that defines `get_data` calls itself for ever.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        owner = _first_with(cls, "__iter__", "get_data")
        if "__iter__" not in owner.__dict__:
            cls.__iter__ = owner.get_data  # type: ignore[method-assign, assignment]
        elif "get_data" not in owner.__dict__:
            cls.get_data = owner.__iter__  # type: ignore[method-assign, assignment]
        owner = _first_with(cls, "__len__", "size")
        if "__len__" not in owner.__dict__:
            cls.__len__ = owner.size  # type: ignore[method-assign, assignment]
        elif "size" not in owner.__dict__:
            cls.size = owner.__len__  # type: ignore[method-assign, assignment]

    @abstractmethod
    def __iter__(self) -> Iterator[Datapoint]:
        """
        Start a pass over the data.

        Yields:
            Datapoints. A finite DataFlow can be iterated again as soon as a pass ended.
        """

    def __len__(self) -> int:
        """
        Tell how many datapoints a pass has.

        It is the default for the steps of an epoch and the total of progress bars, where it need not be exact;
        InferenceRunner takes it at its word.

        Raises:
            LengthUnknownError: it is not known. A subclass may raise any NotImplementedError.
            InfiniteLengthError: a pass never ends.
        """
        raise LengthUnknownError(f"{type(self).__name__}: has no length.")

    def __length_hint__(self) -> int:
        """
        Estimate how many datapoints `list(df)` will hold; Python calls it where `len` raises a TypeError.

        Raises:
            NotImplementedError: a pass never ends, so the list would grow until the memory is full.
        """
        try:
            return len(self)
        except InfiniteLengthError as error:
            raise NotImplementedError(
                f"{error} A list of it cannot be made: take a part with itertools.islice(df, n), or use FixedSizeData."
            ) from None
        except LengthUnknownError:
            return 0

    def reset_state(self) -> None:  # noqa: B027 (most have nothing to get ready)
        """
        Get ready in the process that will iterate: open files, start workers, seed random numbers.

        To be called exactly once, before the first iteration. A DataFlow that wraps another one calls that one's.
        """

    def get_data(self) -> Iterator[Datapoint]:
        """Start a pass: the old name of `__iter__`."""
        return self.__iter__()

    def size(self) -> int:
        """Tell how many datapoints a pass has: the old name of `__len__`."""
        return self.__len__()


class ProxyDataFlow(DataFlow):
    """
    Base of what wraps one other DataFlow: everything is passed on to `ds`, until a subclass says otherwise.

    Length: that of `ds`.
    Order: that of `ds`.
    Process: stays in this one.

    Args:
        ds: the DataFlow to wrap.

    Raises:
        TypeError: `ds` is not a DataFlow.

    Attributes:
        ds: the wrapped DataFlow. A subclass may set it itself, without calling this constructor.

    tensorpack: same; there the type is not looked at.
    """

    def __init__(self, ds: DataFlow) -> None:
        self.ds = require_dataflow(self, ds)

    def __iter__(self) -> Iterator[Datapoint]:
        return iter(self.ds)

    def __len__(self) -> int:
        return len(self.ds)

    def reset_state(self) -> None:
        """Reset `ds`."""
        self.ds.reset_state()


class _RngFromReset:
    """The attribute `rng` before `reset_state` sets it on the instance: anything asked of it raises."""

    def __get__(self, dataflow: object, owner: type) -> Any:
        return None if dataflow is None else _NoRng(owner.__name__)


class _NoRng:
    def __init__(self, who: str) -> None:
        self._who = who

    def __getattr__(self, name: str) -> NoReturn:
        raise NotResetError(
            f"{self._who}: draws random numbers, but reset_state() was not called. Call it once, in the process that "
            f"iterates, before the first iteration (trainers and InputSources do it for you)."
        )


class RNGDataFlow(DataFlow):
    """
    Base of what draws random numbers: use `self.rng` and nothing else.

    Length: not known, unless `__len__` is defined.
    Order: up to the subclass; with `fix_rng_seed`, the same in every run.
    Process: `reset_state` makes the generator, so each process that iterates has its own.

    Attributes:
        rng: a `numpy.random.RandomState`. Using it before `reset_state` raises NotResetError.

    Example:
        >>> class Noise(RNGDataFlow):
        ...     def __iter__(self):
        ...         while True:
        ...             yield [self.rng.rand(28, 28)]

    tensorpack: same; there `rng` is None before `reset_state`, and the error an AttributeError of None.
    """

    rng: np.random.RandomState = _RngFromReset()  # type: ignore[assignment]

    def reset_state(self) -> None:
        """Make `rng`."""
        self.rng = get_rng(self)


class DataFlowReentrantGuard:
    """
    Keep a generator that has state from being run twice at once.

    The body of `__iter__` stands in `with self._guard:`. The guard is therefore taken at the first `next`, and given
    back when the generator ends, is closed or is dropped: leaving a loop by `break` and iterating again is fine.

    Raises:
        RuntimeError: entered while held (`threading.ThreadError`).

    tensorpack: same.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise threading.ThreadError(
                "This DataFlow is being iterated already, and has state that two iterations cannot share. "
                "Finish or drop the other iterator first, or build a second DataFlow."
            )

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> Any:
        return DataFlowReentrantGuard, ()  # a lock does not travel; the copy is free


def require_dataflow(who: object, ds: Any) -> DataFlow:
    """
    Refuse what is not a DataFlow.

    Args:
        who: the object that complains; its type is named.
        ds: a DataFlow, or anything that has `__iter__` and `reset_state`.

    Returns:
        `ds`.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(ds, DataFlow) or (hasattr(ds, "__iter__") and hasattr(ds, "reset_state")):
        return ds
    name = type(who).__name__
    raise type_error(name, "a DataFlow", ds, f"Wrap the data first: {name}(DataFromList(data), ...).")


def require_process(who: object, owner: int) -> None:
    """
    Refuse to use threads or processes that another process has started.

    Args:
        who: the object that uses them; its type is named.
        owner: the process that called `reset_state`.

    Raises:
        RuntimeError: this is another process, such as a fork of the owner, where the threads do not run.
    """
    if os.getpid() != owner:
        raise RuntimeError(
            f"{type(who).__name__}: is iterated in process {os.getpid()}, but its workers were started by "
            f"reset_state() in process {owner}. Call reset_state() only in the process that iterates."
        )


def reset_each_once(dataflows: list[DataFlow]) -> None:
    """
    Reset several DataFlows; one that is there more than once is reset once.

    Args:
        dataflows: in the order in which they are reset.
    """
    for ds in {id(ds): ds for ds in dataflows}.values():
        ds.reset_state()
