"""
Checks and conversions of datapoints that all inputs share.

A datapoint is a list or tuple of components in the order of the signature, or a dict of components keyed by input name.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, DataFlowTerminated
from ..tfutils.feed import FeedConverter, describe_value
from ..utils import logger
from ..utils.errors import rebuild_error
from ..utils.plain_values import checksum

Arrays = List[np.ndarray]
Examine = Callable[[Dict[str, np.ndarray]], bool]
"""A function that gets the arrays of a datapoint by name, and returns whether it is to be called again."""

_NUM_CHECKSUMS = 8
_NUM_SAMPLES = 16
_MAX_SAMPLE_BYTES = 4 << 20
_BATCH_ADVICE = "put BatchData around the DataFlow."
_ADVICE = "Convert it in the DataFlow, e.g. with MapDataComponent, or change the model's inputs()."


class DatapointConverter:
    """
    Converter of datapoints to lists of arrays that match a signature.

    Components are converted by a strict `FeedConverter`, which refuses conversions that lose more than
    precision. It is used from one thread at a time.

    Args:
        who: the input, for error messages, e.g. "FeedInput".
        signature: a list of `TensorSpec`.

    Attributes:
        first_checksums: the checksums of the first 8 datapoints, one for each component.
        examine: called with each datapoint, in the thread that reads, until it returns False; None, the default, calls
            nothing. Its errors end training like errors of the data.
        first_datapoint: up to 16 samples of the first datapoint, at most 4 MB of each component, by the names of the inputs.

    Example:
        >>> convert = DatapointConverter("FeedInput", [TensorSpec([None], tf.float32, "x")])
        >>> convert([[1, 2]])
        [array([1., 2.], dtype=float32)]
    """

    def __init__(self, who: str, signature: Sequence[tf.TensorSpec]) -> None:
        self._who = who
        self.first_checksums: list[list[str]] = []
        self.examine: Examine | None = None
        self.first_datapoint: dict[str, np.ndarray] = {}
        self._names = [spec.name for spec in signature]
        self._converters = [
            FeedConverter(
                f"{who}: component {index} '{spec.name}'",
                spec.dtype,
                spec.shape,
                is_strict=True,
                advice=_ADVICE,
                batch_advice=_BATCH_ADVICE,
            )
            for index, spec in enumerate(signature)
        ]

    def __call__(self, datapoint: object) -> Arrays:
        """
        Convert one datapoint.

        Raises:
            TypeError: the datapoint is not a list, tuple or dict, or a component has the wrong dtype.
            ValueError: the number of components, their names, a shape or the range of integers is wrong.
        """
        if not isinstance(datapoint, list):
            datapoint = self._components_of(datapoint)
        if len(datapoint) != len(self._converters):
            raise ValueError(
                f"{self._who}: the number of components in a datapoint is wrong (expected {len(self._names)}: "
                f"{', '.join(self._names)}, got {len(datapoint)}: {', '.join(map(describe_value, datapoint))}). "
                "Select or add components in the DataFlow, e.g. with SelectComponent or MapData, or change the model's inputs()."
            )
        try:
            arrays = list(map(FeedConverter.convert, self._converters, datapoint))
        except (TypeError, ValueError) as error:
            question = self._question_of_order(datapoint)
            if not question:
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error} {question}") from error
        if len(self.first_checksums) < _NUM_CHECKSUMS:
            self.first_checksums.append([checksum(array) for array in arrays])
            self.first_datapoint = self.first_datapoint or dict(zip(self._names, map(_first_samples, arrays)))
        if self.examine is not None and not self.examine(dict(zip(self._names, arrays))):
            self.examine = None
        return arrays

    def _question_of_order(self, datapoint: Sequence[object]) -> str:
        """Return a question if the first component that does not fit should change places with another one; "" otherwise."""
        pairs = enumerate(zip(self._converters, datapoint))
        wrong = [index for index, (converter, value) in pairs if not converter.fits(value)]
        for index in wrong[1:]:
            if self._converters[wrong[0]].fits(datapoint[index]):
                return f"Component {index} fits '{self._names[wrong[0]]}': is the order swapped?"
        return ""

    def _components_of(self, datapoint: object) -> Sequence[object]:
        if isinstance(datapoint, tuple):
            return datapoint
        if not isinstance(datapoint, dict):
            raise TypeError(
                f"{self._who}: a datapoint has the wrong type (expected a list, tuple or dict of components, got "
                f"{describe_value(datapoint)}). Let the DataFlow yield [component, ...], even if there is only one component."
            )
        if set(datapoint) != set(self._names):
            raise ValueError(
                f"{self._who}: the names of the components in a datapoint are wrong (expected {', '.join(self._names)}, got "
                f"{', '.join(map(str, datapoint))}). Name each component of a dict like the model's input."
            )
        return [datapoint[name] for name in self._names]


def _first_samples(array: np.ndarray) -> np.ndarray:
    """Return a copy of the first samples of a batch, as many as are small enough but at least one."""
    if array.ndim == 0 or len(array) == 0:
        return array.copy()
    return array[: min(_NUM_SAMPLES, max(1, _MAX_SAMPLE_BYTES // max(1, array[:1].nbytes)))].copy()


def iterate_named(dataflow: Iterable[Any], who: str, source: DataFlow) -> Iterator[Any]:
    """
    Iterate over a DataFlow, and name the input and the DataFlow in its errors.

    Args:
        dataflow: the DataFlow to iterate over.
        who: the input that reads, e.g. "QueueInput".
        source: the user's DataFlow, for error messages.
    """
    try:
        yield from dataflow
    except DataFlowTerminated:
        raise
    except Exception as error:  # a user's code may raise anything
        where = f"{who}: the DataFlow {type(source).__name__} failed"
        named = rebuild_error(error, where)
        if named is error:  # its constructor takes more than a text, so the log names the stage
            logger.error(f"{where}: {type(error).__name__}: {error}")
            raise
        raise named from error


def check_num_inputs(who: str, what: str, items: Sequence[object], signature: Sequence[tf.TensorSpec]) -> None:
    """
    Raise ValueError unless there is one item for each of the model's inputs.

    Args:
        who: the class of the input.
        what: the items in words, e.g. "the number of shapes".
        items: the items to count.
        signature: the model's inputs, a list of `TensorSpec`.
    """
    if len(items) != len(signature):
        names = ", ".join(spec.name for spec in signature)
        raise ValueError(f"{who}: {what} is wrong (expected {len(signature)}: {names}, got {len(items)}).")
