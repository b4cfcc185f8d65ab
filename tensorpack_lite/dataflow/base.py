"""
The DataFlow interface: an iterable that yields datapoints.

In:  nothing; the first DataFlow of a pipeline reads files, arrays or generators.
Out: datapoints. A datapoint is a list or a dict of components; tuples are also accepted.

Using a DataFlow takes three steps::

    df = BatchData(DataFromList(data), 32)      build:    cheap; the result can be pickled and sent to a process
    df.reset_state()                            reset:    once, in the process that iterates
    for image, label in df:                     iterate:  any number of passes, one after the other
        ...

Trainers, InputSources and runners reset the DataFlows that they are given.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from typing import Any, Iterator, Sequence, TypeVar

import numpy as np

from ..utils.argtools import log_once
from ..utils.errors import type_error
from ..utils.random_streams import get_rng
from .exact.checkpointable import Checkpointable
from .meter import Metered
from .observing import Observer, observe

T = TypeVar("T")
Datapoint = Any  # List[Any] or Dict[Any, Any]; indexed by position or by key


class LengthUnknownError(NotImplementedError, TypeError):
    """
    The length of a DataFlow is unknown, for example because it reads from a generator.

    Scripts for tensorpack catch a NotImplementedError from `size()`; `list(df)` and `tqdm(df)` catch a TypeError from
    `len(df)`. This error is both.
    """


class InfiniteLengthError(LengthUnknownError):
    """The DataFlow never ends."""


class NotResetError(RuntimeError, AttributeError):
    """A DataFlow was iterated before `reset_state()` was called, or after its workers were stopped."""


class DataFlowTerminated(BaseException):
    """
    The source of the data was closed, so the DataFlow cannot be iterated any more.

    Consumers treat it as the end of the data, not as an error. It derives from BaseException, so `except Exception` in
    a pipeline does not catch it.
    """


def _first_with(cls: type[DataFlow], *names: str) -> type[DataFlow]:
    """Return the first class in the MRO of `cls` that defines a method with one of these names."""
    return next(base for base in cls.__mro__ if any(callable(base.__dict__.get(name)) for name in names))


def _warn_about_size(stage: Any, above: object) -> None:
    """Log if an attribute of a stage, which is being reset, hides its method `size`."""
    cls: Any = type(stage)
    # not with `vars`, which would make all attributes of the stage slower
    if callable(cls.size) and not callable(stage.size):
        log_once(
            f"{cls.__name__}: its attribute `size` hides the method `size()`, the old name of `len()`. Give the attribute another name, such "
            "as `_size`.",
            "warning",
        )


_OBSERVERS = _warn_about_size, Checkpointable._record, Metered._measure  # of each `reset_state`


class DataFlow(Checkpointable, Metered, ABC):
    """
    Base class for objects that yield datapoints.

    A subclass defines `__iter__`, `__len__` if the length is known, and `reset_state` if there is something to prepare.

    Length: unknown, unless `__len__` is defined.
    Order: defined by the subclass.
    Process: can be pickled before `reset_state`; must stay in one process afterwards.

    Example:
        >>> class Squares(DataFlow):
        ...     def __iter__(self):
        ...         for k in range(10):
        ...             yield [k, k * k]
        ...     def __len__(self):
        ...         return 10

    Note:
        A subclass may use the old names `get_data` and `size` instead of `__iter__` and `__len__`. In every class both
        names refer to the same method, so old and new classes can inherit from and wrap each other.
    """

    _observers: Sequence[Observer | None] = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Connect old and new names, and let the observers see the passes and resets of each class, the user's included."""
        super().__init_subclass__(**kwargs)
        owner = _first_with(cls, "__iter__", "get_data")
        if "__iter__" not in owner.__dict__:
            cls.__iter__ = owner.get_data  # type: ignore[method-assign]
        elif "get_data" not in owner.__dict__:
            cls.get_data = owner.__iter__  # type: ignore[method-assign, assignment]
        owner = _first_with(cls, "__len__", "size")
        if "__len__" not in owner.__dict__:
            cls.__len__ = owner.size  # type: ignore[method-assign]
        elif "size" not in owner.__dict__:
            cls.size = owner.__len__  # type: ignore[method-assign, assignment]
        observe(cls, _OBSERVERS)

    @abstractmethod
    def __iter__(self) -> Iterator[Datapoint]:
        """
        Start a pass over the data.

        Yields:
            Datapoints. When a pass has ended, the DataFlow can be iterated again.
        """

    def __len__(self) -> int:
        """
        Return the number of datapoints in a pass.

        It is the default number of steps in an epoch and the total of progress bars, where an estimate is good enough.
        InferenceRunner needs the exact number.

        Raises:
            NotImplementedError: the length is unknown.
            InfiniteLengthError: the DataFlow never ends.
        """
        raise LengthUnknownError(f"{type(self).__name__}: has no length.")

    def __length_hint__(self) -> int:
        """
        Estimate the length of `list(df)`. Python calls this method when `len(df)` raises a TypeError.

        Raises:
            NotImplementedError: the DataFlow never ends, so the list would fill the memory.
        """
        try:
            return len(self)
        except InfiniteLengthError as error:
            raise NotImplementedError(
                f"{error} It cannot be converted to a list. Use itertools.islice(df, n) or FixedSizeData to take a part."
            ) from None
        except LengthUnknownError:
            return 0

    def reset_state(self) -> None:
        """
        Prepare for iteration: open files, start workers, seed random numbers.

        Call it exactly once, in the process that iterates, before the first iteration. A DataFlow that wraps another
        one also resets the wrapped one.
        """

    def _stop_workers(self) -> None:
        """Stop the processes and threads of this stage, which then needs another `reset_state`."""

    def get_data(self) -> Iterator[Datapoint]:
        """Start a pass. This is the old name of `__iter__`."""
        return self.__iter__()

    def size(self) -> int:
        """Return the number of datapoints in a pass. This is the old name of `__len__`."""
        return self.__len__()


observe(DataFlow, _OBSERVERS)


class ProxyDataFlow(DataFlow):
    """
    Base class for DataFlows that wrap another one. By default, all methods delegate to `ds`.

    Length: that of `ds`.
    Order: that of `ds`.
    Process: runs in the current process.

    Args:
        ds: the DataFlow to wrap.

    Raises:
        TypeError: `ds` is not a DataFlow.

    Attributes:
        ds: the wrapped DataFlow. A subclass may set it without calling this constructor.
    """

    def __init__(self, ds: DataFlow) -> None:
        self.ds = require_dataflow(self, ds)

    def __iter__(self) -> Iterator[Datapoint]:
        return self.iter_from(0)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Continue the pass of `ds`."""
        return iter(self.ds)

    def __len__(self) -> int:
        return len(self.ds)

    def reset_state(self) -> None:
        """Reset `ds`."""
        self.ds.reset_state()

    def _stages_read(self) -> list[object]:
        return [self.ds]


class _RngFromReset:
    """Placeholder for `rng` until `reset_state` sets it. Using it raises NotResetError."""

    def __get__(self, dataflow: object, owner: type) -> None:
        if dataflow is not None:
            raise not_reset_error(owner.__name__)


class RNGDataFlow(DataFlow):
    """
    Base class for DataFlows that draw random numbers. Subclasses draw from `self.rng` only.

    Length: unknown, unless `__len__` is defined.
    Order: defined by the subclass; after `fix_rng_seed`, the same in every run.
    Process: `reset_state` creates the generator, so each process that iterates has its own.

    Attributes:
        rng: a `numpy.random.RandomState`. Using it before `reset_state` raises NotResetError.

    Example:
        >>> class Noise(RNGDataFlow):
        ...     def __iter__(self):
        ...         while True:
        ...             yield [self.rng.rand(28, 28)]
    """

    rng: np.random.RandomState = _RngFromReset()  # type: ignore[assignment]

    def reset_state(self) -> None:
        """Create `rng`."""
        self.rng = get_rng(self)


class IndexedData(RNGDataFlow):
    """
    Base class for DataFlows whose datapoints have an index. Subclasses define `__len__` and `_datapoint`.

    Length: the number of datapoints.
    Order: a new random order in each pass, or that of the indices.
    Process: runs in the current process.

    Args:
        shuffle: whether to use a new random order in each pass.
    """

    _draws_order = True

    def __init__(self, shuffle: bool) -> None:
        self.shuffle = shuffle

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of datapoints."""

    @abstractmethod
    def _datapoint(self, index: int) -> Datapoint:
        """Return the datapoint at an index, as a new list."""

    def __iter__(self) -> Iterator[Datapoint]:
        return self.iter_from(0)

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the datapoints in the order of this pass, without the first ones."""
        order = self.rng.permutation(len(self)).tolist() if self.shuffle else range(len(self))
        return map(self._datapoint, order[num_done:])


class DataFlowReentrantGuard:
    """
    Context manager that rejects a second iterator while the first one is running.

    A DataFlow with state puts the body of `__iter__` into `with self._guard:`. The guard is acquired at the first
    `next`, and released when the generator ends, is closed or is garbage-collected. Leaving a loop with `break` and
    iterating again therefore works.

    Raises:
        RuntimeError: the guard is already held (`threading.ThreadError`).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise threading.ThreadError(
                "This DataFlow is already being iterated, and two iterators cannot share its state. "
                "Finish or delete the other iterator first, or build a second DataFlow."
            )

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[DataFlowReentrantGuard], tuple[()]]:
        return DataFlowReentrantGuard, ()  # a lock cannot be pickled; the copy is not held


def require_dataflow(who: object, ds: T) -> T:
    """
    Check that an argument is a DataFlow.

    Args:
        who: the object or the name of the function that takes the argument, for the error message.
        ds: a DataFlow, or any object with `__iter__` and `reset_state`.

    Returns:
        `ds`.

    Raises:
        TypeError: `ds` is not a DataFlow.
    """
    if isinstance(ds, DataFlow) or (hasattr(ds, "__iter__") and hasattr(ds, "reset_state")):
        return ds
    name = who if isinstance(who, str) else type(who).__name__
    raise type_error(name, "a DataFlow", ds, f"Wrap the data first: {name}(DataFromList(data), ...).")


def require_workers(who: object, owner: int | None) -> None:
    """
    Check that the threads or processes of a DataFlow were started by this process.

    Args:
        who: the DataFlow, for the error message.
        owner: pid of the process that called `reset_state`; None before `reset_state`, 0 after `_stop_workers`.

    Raises:
        NotResetError: `reset_state` was not called, or the workers were stopped since.
        RuntimeError: the workers belong to another process. A fork inherits the DataFlow, but not its threads.
    """
    name = type(who).__name__
    if owner is None:
        raise not_reset_error(name)
    if owner == 0:
        raise NotResetError(
            f"{name}: its workers were stopped, as at the end of a training. Call reset_state() again before you iterate."
        )
    if os.getpid() != owner:
        raise RuntimeError(
            f"{name}: cannot be iterated in process {os.getpid()}, because reset_state() started its workers in process "
            f"{owner}. Call reset_state() only in the process that iterates."
        )


def not_reset_error(name: str) -> NotResetError:
    """Return the error for a DataFlow that is iterated before `reset_state`; the caller raises it."""
    return NotResetError(
        f"{name}: reset_state() was not called. Call it once, in the process that iterates, before the first iteration "
        f"(trainers and InputSources do it for you)."
    )


def reset_twice_error(name: str) -> RuntimeError:
    """Return the error for a DataFlow whose workers are already running; the caller raises it."""
    return RuntimeError(
        f"{name}: reset_state() was called twice, but its workers are already running. Remove your call: runners, "
        f"trainers and InputSources reset the DataFlows they are given."
    )


def length_or_none(ds: DataFlow) -> int | None:
    """Return the length of a DataFlow, or None if it is unknown or infinite."""
    try:
        return len(ds)
    except NotImplementedError:
        return None


def stop_workers(flow: object) -> None:
    """Stop the processes and threads of a DataFlow and of those that it reads. It can be reset and iterated again."""
    if isinstance(flow, DataFlow):
        flow._stop_workers()
        for stage in flow._stages_read():
            stop_workers(stage)


def reset_each_once(dataflows: list[DataFlow]) -> None:
    """Reset several DataFlows in order. A DataFlow that is listed more than once is reset once."""
    for ds in {id(ds): ds for ds in dataflows}.values():
        ds.reset_state()
