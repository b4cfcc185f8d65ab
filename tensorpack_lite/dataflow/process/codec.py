"""
Encoding of datapoints as a head of bytes and arrays, each of which is copied once into shared memory.

Small datapoints of one form (equal components, dtypes and shapes) are encoded as columns, so that one NumPy
call handles one component of all of them. Other datapoints are pickled with the newest protocol of this
Python; their larger arrays are omitted from the pickle.
"""

from __future__ import annotations

import io
import pickle
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from typing import Any, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from .slots import aligned

_OUT_OF_BAND = 4096  # bytes; smaller arrays are cheaper inside the pickle
_IN_PLACE = 32 << 10  # bytes; larger arrays are cheaper in place than in a column
_JOINED = 4096  # bytes; joining smaller arrays as bytes is three times as fast as np.concatenate, despite one more copy
_COLUMNS, _OBJECTS = b"C", b"O"

MemoryPlace = Tuple[int, np.dtype, Tuple[int, ...]]  # offset in bytes, dtype, shape
Source = Union[np.ndarray, List[np.ndarray]]  # one array, or arrays to stack


class Stacked(List[np.ndarray]):
    """
    List of arrays of one dtype and shape that arrive as one array, stacked on a new first axis.

    A stage that makes batches copies each array once, directly into the shared memory.
    """


class Encoded(NamedTuple):
    """
    Encoded datapoints, ready to be written.

    Attributes:
        head: everything except the arrays.
        arrays: (offset, array) for each array; a list of arrays stands for their stack.
        num_bytes: size of the memory for the arrays, from offset 0.
    """

    head: bytes
    arrays: Sequence[tuple[int, Source]]
    num_bytes: int


def encode(datapoints: list[Any]) -> Encoded:
    """
    Split datapoints into a head and arrays.

    Args:
        datapoints: one or more. They are not copied yet, so they must not change before `write_arrays`.

    Raises:
        pickle.PicklingError, TypeError, AttributeError: a component cannot be pickled.
    """
    if len(datapoints) > 1:
        encoded = _encode_columns(datapoints)
        if encoded is not None:
            return encoded
    buffer = io.BytesIO()
    buffer.write(_OBJECTS)
    pickler = _ArrayPickler(buffer)
    pickler.dump(datapoints)
    return Encoded(buffer.getvalue(), pickler.arrays, pickler.end)


def write_arrays(encoded: Encoded, memory: np.ndarray) -> None:
    """
    Copy the arrays of encoded datapoints into memory.

    Args:
        encoded: result of `encode`.
        memory: uint8, at least `encoded.num_bytes` long.
    """
    for offset, source in encoded.arrays:
        if isinstance(source, list):
            _write_stack(source, offset, memory)
        else:
            np.copyto(_array_at(memory, (offset, source.dtype, source.shape)), source)


def decode(head: bytes, memory: np.ndarray, copy: bool) -> list[Any]:
    """
    Rebuild datapoints.

    Args:
        head: the head from `encode`.
        memory: uint8, as filled by `write_arrays`.
        copy: if True, copy the arrays. If False, the arrays are views of `memory` and keep it alive.

    Returns:
        The datapoints.
    """
    content = memoryview(head)[1:]
    if head[:1] == _COLUMNS:
        return _decode_columns(pickle.loads(content), memory)
    return _ArrayUnpickler(content, memory, copy).load()


def may_stay_in_place(head: bytes) -> bool:
    """Return whether `decode` can return views. The arrays of columns are always copied."""
    return head[:1] == _OBJECTS


def are_alike(values: Sequence[Any]) -> bool:
    """Return whether all values are arrays of one dtype and shape, without Python objects."""
    if {*map(type, values)} != {np.ndarray} or values[0].dtype.hasobject:
        return False
    dtype, shape = values[0].dtype, values[0].shape
    for value in values:  # noqa: SIM110 (faster than `all` with a generator)
        if value.shape != shape or (value.dtype is not dtype and value.dtype != dtype):
            return False
    return True


def _write_stack(arrays: list[np.ndarray], offset: int, memory: np.ndarray) -> None:
    if 0 < arrays[0].nbytes <= _JOINED:
        with suppress(TypeError):  # not contiguous, or a dtype that buffers do not have
            joined = b"".join(arrays)  # type: ignore[arg-type]
            memory[offset : offset + len(joined)] = np.frombuffer(joined, np.uint8)
            return
    # concatenating along the first axis gives the same bytes as stacking on a new one
    rows, *axes = arrays[0].shape
    stack = _array_at(memory, (offset, arrays[0].dtype, (len(arrays) * rows, *axes)))
    np.concatenate(arrays, out=stack)


def _array_at(memory: np.ndarray, place: MemoryPlace) -> np.ndarray:
    offset, dtype, shape = place
    return np.ndarray(shape, dtype, memory, offset)


# --------------------------------------------------------------------------------------------- columns
def _encode_columns(datapoints: list[Any]) -> Encoded | None:
    """Encode datapoints of one form. Return None if their forms differ or they contain no array."""
    first = datapoints[0]
    kind = type(first)
    if kind not in (list, tuple, dict):
        return None
    if {*map(type, datapoints)} != {kind} or {*map(len, datapoints)} != {len(first)}:
        return None
    keys, rows = None, datapoints
    if kind is dict:
        keys = list(first)
        if any(list(datapoint) != keys for datapoint in datapoints):
            return None
        rows = [datapoint.values() for datapoint in datapoints]

    columns: list[Any] = []  # (MemoryPlace, None), or (None, values to pickle)
    arrays: list[tuple[int, Source]] = []
    end = 0
    for values in zip(*rows):
        if type(values[0]) is not np.ndarray:
            columns.append((None, _pack_scalars(values)))
            continue
        first = values[0]
        if not first.shape or first.nbytes > _IN_PLACE or not are_alike(values):
            return None
        start = aligned(end)
        arrays.append((start, list(values)))
        columns.append(((start, first.dtype, (len(values), *first.shape)), None))
        end = start + first.nbytes * len(values)
    if not arrays:
        return None
    head = pickle.dumps((kind, keys, columns), pickle.HIGHEST_PROTOCOL)
    return Encoded(_COLUMNS + head, arrays, end)


def _pack_scalars(values: tuple[Any, ...]) -> np.ndarray | tuple[Any, ...]:
    """Pack NumPy scalars of one type into an array: pickled one by one, they cost more than images."""
    kind = type(values[0])
    if issubclass(kind, np.number) and all(type(value) is kind for value in values):
        return np.array(values)
    return values


def _decode_columns(content: tuple[type, list[Any], list[Any]], memory: np.ndarray) -> list[Any]:
    """Copy each datapoint, so that a datapoint that is kept does not keep the others of its message alive."""
    kind, keys, columns = content
    values = [packed if place is None else map(np.ndarray.copy, _array_at(memory, place)) for place, packed in columns]
    rows = zip(*values)
    if kind is dict:
        return [dict(zip(keys, row)) for row in rows]
    return list(map(list, rows) if kind is list else rows)


# --------------------------------------------------------------------------------------------- objects
class _ArrayPickler(ForkingPickler):
    """Pickler that writes only the places of larger arrays."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.arrays: list[tuple[int, Source]] = []
        self.end = 0
        self._known: dict[int, Any] = {}

    def persistent_id(self, obj: Any) -> tuple[MemoryPlace, bool] | None:
        if type(obj) is Stacked:
            first = obj[0]
            return self._leave_out(obj, first.dtype, (len(obj), *first.shape), len(obj) * first.nbytes), False
        if type(obj) is not np.ndarray or obj.nbytes < _OUT_OF_BAND or obj.dtype.hasobject:
            return None
        known = self._known.get(id(obj))
        if known is None:  # an array in two components stays one array
            transposed = obj.flags.f_contiguous and not obj.flags.c_contiguous
            source = obj.T if transposed else obj
            known = self._leave_out(source, source.dtype, source.shape, source.nbytes), transposed
            self._known[id(obj)] = known
        return known

    def _leave_out(self, source: Source, dtype: np.dtype, shape: tuple[int, ...], num_bytes: int) -> MemoryPlace:
        offset = aligned(self.end)
        self.arrays.append((offset, source))
        self.end = offset + num_bytes
        return offset, dtype, shape


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler for the output of `_ArrayPickler`."""

    def __init__(self, content: memoryview, memory: np.ndarray, copy: bool) -> None:
        super().__init__(io.BytesIO(content))
        self._memory = memory
        self._copy = copy
        self._arrays: dict[int, np.ndarray] = {}

    def persistent_load(self, pid: tuple[MemoryPlace, bool]) -> np.ndarray:
        place, transposed = pid
        array = self._arrays.get(place[0])
        if array is None:
            array = _array_at(self._memory, place)
            array = array.copy() if self._copy else array
            array = self._arrays[place[0]] = array.T if transposed else array
        return array
