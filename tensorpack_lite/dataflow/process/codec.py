"""
Datapoints as a head, which is bytes, and arrays, whose memory is copied once into the memory that both sides see.

Small datapoints of one form (the same components, dtypes and shapes) travel as columns: what NumPy does for one array
it then does for all of them. Everything else is pickled at the newest protocol of this Python, with the larger arrays
out of band.
"""

from __future__ import annotations

import io
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from .slots import aligned

__all__ = ["Encoded", "Stack", "decode", "encode", "may_stay_in_place", "write_arrays"]

_OUT_OF_BAND = 4096  # bytes; smaller arrays cost more as arrays of their own than inside the pickle
_IN_PLACE = 32 << 10  # bytes; larger arrays are worth more in place than in a column
_COLUMNS, _OBJECTS = b"C", b"O"

Place = Tuple[int, np.dtype, Tuple[int, ...]]  # offset in bytes, dtype, shape
Source = Union[np.ndarray, List[np.ndarray]]  # one array, or those that are stacked into one


class Stack(List[np.ndarray]):
    """
    Arrays of one dtype and shape that arrive as one array, stacked on a new first axis.

    What makes a batch need not make it twice: once here, and once in the memory that both sides see.
    """


class Encoded(NamedTuple):
    """
    Some datapoints, ready to be written.

    Attributes:
        head: all but the arrays.
        arrays: (offset, array) for each array; a list of arrays stands for their stack.
        num_bytes: how much memory the arrays take, counted from offset 0.
    """

    head: bytes
    arrays: Sequence[tuple[int, Source]]
    num_bytes: int


def encode(datapoints: list[Any]) -> Encoded:
    """
    Separate datapoints into head and arrays.

    Args:
        datapoints: one or more. Nothing is copied yet, so they must stay as they are until `write_arrays`.

    Raises:
        pickle.PicklingError, TypeError, AttributeError: something in them cannot be pickled.
    """
    if len(datapoints) > 1:
        encoded = _encode_columns(datapoints)
        if encoded is not None:
            return encoded
    return _encode_objects(datapoints)


def write_arrays(encoded: Encoded, memory: np.ndarray) -> None:
    """
    Copy the arrays of datapoints to where they belong.

    Args:
        encoded: of `encode`.
        memory: uint8, at least `encoded.num_bytes` long.
    """
    for offset, source in encoded.arrays:
        if isinstance(source, list):
            # what is joined along the first axis lies in memory as what is stacked on a new one
            rows, *rest = source[0].shape
            stack = _array_at(memory, (offset, source[0].dtype, (len(source) * rows, *rest)))
            np.concatenate(source, out=stack)
        else:
            np.copyto(_array_at(memory, (offset, source.dtype, source.shape)), source)


def decode(head: bytes, memory: np.ndarray, copy: bool) -> list[Any]:
    """
    Put datapoints together again.

    Args:
        head: of `encode`.
        memory: uint8, where `write_arrays` wrote.
        copy: True: arrays get memory of their own. False: they lie in `memory`, and keep it alive.

    Returns:
        The datapoints.
    """
    content = memoryview(head)[1:]
    if head[:1] == _COLUMNS:
        return _decode_columns(pickle.loads(content), memory)
    return _ArrayUnpickler(content, memory, copy).load()  # type: ignore[no-any-return]


def may_stay_in_place(head: bytes) -> bool:
    """Tell whether `decode` can leave the arrays where they lie; columns are always taken apart by copying."""
    return head[:1] == _OBJECTS


def _array_at(memory: np.ndarray, place: Place) -> np.ndarray:
    offset, dtype, shape = place
    size = dtype.itemsize * _num_elements(shape)
    return memory[offset : offset + size].view(dtype).reshape(shape)


def _num_elements(shape: tuple[int, ...]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


# --------------------------------------------------------------------------------------------- columns
def _encode_columns(datapoints: list[Any]) -> Encoded | None:
    """Encode datapoints of one form; None when their forms differ, or there is no array in them."""
    first = datapoints[0]
    kind = type(first)
    if kind not in (list, tuple, dict):
        return None
    if any(type(datapoint) is not kind or len(datapoint) != len(first) for datapoint in datapoints):
        return None
    keys, rows = None, datapoints
    if kind is dict:
        keys = list(first)
        if any(list(datapoint) != keys for datapoint in datapoints):
            return None
        rows = [datapoint.values() for datapoint in datapoints]

    columns: list[Any] = []  # a Place, or what is pickled
    arrays: list[tuple[int, Source]] = []
    end = 0
    for values in zip(*rows):
        if type(values[0]) is not np.ndarray:
            columns.append((None, _pack_scalars(values)))
            continue
        place = _place_of_stack(values, aligned(end))
        if place is None:
            return None
        arrays.append((place[0], list(values)))
        end = place[0] + values[0].nbytes * len(values)
        columns.append((place, None))
    if not arrays:
        return None
    head = pickle.dumps((kind, keys, columns), pickle.HIGHEST_PROTOCOL)
    return Encoded(_COLUMNS + head, arrays, end)


def _place_of_stack(values: tuple[Any, ...], offset: int) -> Place | None:
    first = values[0]
    dtype, shape = first.dtype, first.shape
    if not shape or dtype.hasobject or first.nbytes > _IN_PLACE:
        return None
    for value in values:
        if type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
            return None
    return offset, dtype, (len(values), *shape)


def _pack_scalars(values: tuple[Any, ...]) -> Any:
    """NumPy scalars of one type, pickled one by one, cost more than the images beside them."""
    kind = type(values[0])
    if issubclass(kind, np.number) and all(type(value) is kind for value in values):
        return np.array(values)
    return values


def _decode_columns(content: Any, memory: np.ndarray) -> list[Any]:
    """Give each datapoint memory of its own: who keeps one of them does not keep its neighbours."""
    kind, keys, columns = content
    values = [
        list(packed) if place is None else [row.copy() for row in _array_at(memory, place)]
        for place, packed in columns
    ]
    if kind is dict:
        return [dict(zip(keys, row)) for row in zip(*values)]
    if kind is list:
        return [list(row) for row in zip(*values)]
    return list(zip(*values))


# --------------------------------------------------------------------------------------------- objects
def _encode_objects(datapoints: list[Any]) -> Encoded:
    buffer = io.BytesIO()
    buffer.write(_OBJECTS)
    pickler = _ArrayPickler(buffer)
    pickler.dump(datapoints)
    return Encoded(buffer.getvalue(), pickler.arrays, pickler.end)


class _ArrayPickler(ForkingPickler):
    """Pickles, and leaves larger arrays out: of each only its place is written."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.arrays: list[tuple[int, Source]] = []
        self.end = 0
        self._known: dict[int, Any] = {}

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is Stack:
            return self._leave_out(obj, obj[0].dtype, (len(obj), *obj[0].shape)), False
        if type(obj) is not np.ndarray or obj.nbytes < _OUT_OF_BAND or obj.dtype.hasobject:
            return None
        known = self._known.get(id(obj))
        if known is None:  # one array in two components stays one array
            transposed = obj.flags.f_contiguous and not obj.flags.c_contiguous
            source = obj.T if transposed else obj
            known = self._leave_out(source, source.dtype, source.shape), transposed
            self._known[id(obj)] = known
        return known

    def _leave_out(self, source: Source, dtype: np.dtype, shape: tuple[int, ...]) -> Place:
        offset = aligned(self.end)
        self.arrays.append((offset, source))
        self.end = offset + dtype.itemsize * _num_elements(shape)
        return offset, dtype, shape


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles what `_ArrayPickler` wrote."""

    def __init__(self, content: memoryview, memory: np.ndarray, copy: bool) -> None:
        super().__init__(io.BytesIO(content))
        self._memory = memory
        self._copy = copy
        self._arrays: dict[int, np.ndarray] = {}

    def persistent_load(self, pid: Any) -> np.ndarray:
        place, transposed = pid
        array = self._arrays.get(place[0])
        if array is None:
            array = _array_at(self._memory, place)
            array = array.copy() if self._copy else array
            array = self._arrays[place[0]] = array.T if transposed else array
        return array
