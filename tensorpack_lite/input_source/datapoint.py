"""
What every input does with a datapoint: check it against the model's signature and turn it into arrays.

A datapoint is a list or tuple of components in the order of the signature, or a dict of them keyed by input name.
Here, and only here, it is decided what fits and what does not.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, DataFlowTerminated
from ..utils import logger
from ..utils.errors import rebuild_error

__all__ = ["Arrays", "DatapointConverter", "iterate_named", "raise_named"]

Arrays = List[np.ndarray]


class DatapointConverter:
    """
    Turns datapoints into lists of arrays of exactly the signature's dtypes, or says why that cannot be.

    A component of the right dtype is passed as it is. NumPy's "same kind" conversions are made (float64 to float32, int
    to float, bool to int); integers become narrower integers when all values fit. What would lose more than
    precision, such as float to int, is an error.

    Args:
        who: the input that complains, e.g. "FeedInput".
        signature: a list of `TensorSpec`; an unknown dimension takes any size.

    Example:
        >>> convert = DatapointConverter("FeedInput", [TensorSpec([None], tf.float32, "x")])
        >>> convert([[1, 2]])
        [array([1., 2.], dtype=float32)]

    Note: an array of the right dtype and shape costs half a microsecond. To be used from one thread at a time.
    """

    def __init__(self, who: str, signature: Sequence[Any]) -> None:
        self._who = who
        self._components = [_Component(who, index, spec) for index, spec in enumerate(signature)]
        self._names = [component.name for component in self._components]

    def __call__(self, datapoint: Any) -> Arrays:
        """
        Convert one datapoint.

        Raises:
            TypeError: it is no list, tuple or dict, or a component's dtype cannot become the wanted one.
            ValueError: a wrong number of components or wrong names, a wrong shape, a value that does not fit.
        """
        if isinstance(datapoint, dict):
            datapoint = self._by_name(datapoint)
        elif not isinstance(datapoint, (list, tuple)):
            raise TypeError(
                f"{self._who}: a datapoint is {_describe(datapoint)}, wanted a list, a tuple or a dict of components. "
                "Let the DataFlow yield [component, ...], also when there is only one."
            )
        if len(datapoint) != len(self._components):
            raise ValueError(
                f"{self._who}: datapoint has {len(datapoint)} components, the model takes {len(self._names)} "
                f"({', '.join(self._names)}). Datapoint: [{', '.join(map(_describe, datapoint))}]."
            )
        return [component.convert(value) for component, value in zip(self._components, datapoint)]

    def _by_name(self, datapoint: dict[str, Any]) -> list[Any]:
        if set(datapoint) != set(self._names):
            raise ValueError(
                f"{self._who}: datapoint has the components {', '.join(map(str, datapoint))}; the model takes "
                f"{', '.join(self._names)}. Name each component of a dict like the input it is for."
            )
        return [datapoint[name] for name in self._names]


def iterate_named(dataflow: DataFlow, who: str, source: DataFlow) -> Iterator[Any]:
    """
    Iterate over a DataFlow; an error of it is raised again with the names of the input and of the DataFlow.

    Args:
        dataflow: what to iterate over.
        who: the input that reads, e.g. "QueueInput".
        source: the DataFlow the user gave, for the message.
    """
    where = f"{who}: the DataFlow {type(source).__name__} failed"
    try:
        iterator = iter(dataflow)
    except Exception as error:  # noqa: BLE001 (a user's code: it may raise anything)
        raise_named(error, where)
    while True:
        try:
            datapoint = next(iterator)
        except StopIteration:
            return
        except DataFlowTerminated:
            raise
        except Exception as error:  # noqa: BLE001 (a user's code: it may raise anything)
            raise_named(error, where)
        yield datapoint


def raise_named(error: BaseException, where: str) -> None:
    """Raise an error of another stage with that stage's name, the original as its cause."""
    named = rebuild_error(error, where)
    if named is error:  # its type holds more than a text: the stage is in the log
        logger.error(f"{where}: {type(error).__name__}: {error}")
        raise error
    raise named from error


class _Component:
    """One component: its place in the signature, and the last shape that was found good."""

    def __init__(self, who: str, index: int, spec: Any) -> None:
        self.name = spec.name
        self._dtype = np.dtype(spec.dtype.as_numpy_dtype)
        self._shape = tf.TensorShape(spec.shape)
        self._good_shape: Any = None
        self._label = f"{who}: component {index} '{spec.name}'"
        self._wanted = f"{spec.dtype.name} {_text(self._shape)}"

    def convert(self, value: Any) -> np.ndarray:
        array = value if type(value) is np.ndarray and value.dtype == self._dtype else self._cast(value)
        if array.shape != self._good_shape:
            self._check_shape(array)
        return array

    def _check_shape(self, array: np.ndarray) -> None:
        if not self._shape.is_compatible_with(array.shape):
            raise ValueError(
                f"{self._label} is {_describe(array)}, wanted {self._wanted}. Change its shape in the DataFlow, or the "
                "model's inputs()."
            )
        self._good_shape = array.shape

    def _cast(self, value: Any) -> np.ndarray:
        array = self._to_array(value)
        if array.dtype == self._dtype or array.size == 0:
            return array.astype(self._dtype, copy=False)
        if self._dtype.kind == "O":
            return self._cast_strings(value, array)
        if array.dtype.kind in "iu" and self._dtype.kind in "iu":
            self._check_range(array)
        elif not np.can_cast(array.dtype, self._dtype, "same_kind"):
            self._refuse(array)
        return array.astype(self._dtype)

    def _to_array(self, value: Any) -> np.ndarray:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ValueError(
                f"{self._label} is {_describe(value)} that makes no array ({error}), wanted {self._wanted}."
            ) from error
        if array.dtype.kind == "O" and self._dtype.kind != "O":
            self._refuse(array)
        return array

    def _cast_strings(self, value: Any, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind not in "SU":
            self._refuse(array)
        # From the value itself: a NumPy string drops the zero bytes at its end.
        return array.astype(object) if isinstance(value, np.ndarray) else np.asarray(value, dtype=object)

    def _check_range(self, array: np.ndarray) -> None:
        if np.can_cast(array.dtype, self._dtype):
            return
        limits = np.iinfo(self._dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise ValueError(
                f"{self._label} is {_describe(array)} with values from {low} to {high}, which do not fit into "
                f"{self._dtype.name} ({limits.min} to {limits.max})."
            )

    def _refuse(self, array: np.ndarray) -> None:
        raise TypeError(
            f"{self._label} is {_describe(array)}, wanted {self._wanted}. Convert it in the DataFlow, e.g. with "
            "MapDataComponent, or change the model's inputs()."
        )


def _describe(value: Any) -> str:
    """Name what came: dtype and shape of an array, else the type."""
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype.name} {value.shape}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return type(value).__name__


def _text(shape: Any) -> str:
    return str(shape.as_list()) if shape.dims is not None else "of any shape"
