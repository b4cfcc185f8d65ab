"""
Reader of pickles with plain data, which never runs code in them.

It reads pickles of numbers, strings, lists, tuples, sets, dicts and NumPy arrays. The functions that such a
pickle names are replaced by functions of this file, which create arrays from the bytes in the pickle. NumPy's
functions, which allocate whatever the pickle claims, are never called.

The sizes in a pickle are checked before: Python's unpickler allocates whatever a pickle requests, so 9 bytes that store an object
at index 2^27 of the memo cost 2 GB. In a regular pickle, an index of the memo is at most the number of bytes before it, and strings
end inside the pickle.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from functools import partial
from struct import Struct
from typing import IO, Any, Callable

import numpy as np

_PUT, _LONG_PUT, _STOP = ord("p"), ord("r"), ord(".")
_LENGTHS = {  # pickletools' constants for arguments that begin with their length
    pickletools.TAKEN_FROM_ARGUMENT1: Struct("<B"),
    pickletools.TAKEN_FROM_ARGUMENT4: Struct("<i"),
    pickletools.TAKEN_FROM_ARGUMENT4U: Struct("<I"),
    pickletools.TAKEN_FROM_ARGUMENT8U: Struct("<Q"),
}


def _format_of(argument: pickletools.ArgumentDescriptor | None) -> tuple[int, int, Struct | None]:
    """Return the number of bytes of an argument, the number of its lines, and the format of its length."""
    if argument is None:
        return 0, 0, None
    if argument.n == pickletools.UP_TO_NEWLINE:
        return 0, 2 if argument.name.endswith("pair") else 1, None
    length = _LENGTHS.get(argument.n)
    return argument.n if length is None else length.size, 0, length


_ARGUMENTS = {ord(opcode.code): _format_of(opcode.arg) for opcode in pickletools.opcodes}


def check_pickle_sizes(packed: bytes) -> None:
    """
    Check the opcodes of a pickle without running them.

    Args:
        packed: the pickle. Bytes after its end are ignored.

    Raises:
        ValueError: an opcode is unknown, a string ends after the pickle, or an index of the memo is larger
            than the number of bytes before it.
    """
    place, end = 0, len(packed)
    while place < end:
        code, start = packed[place], place + 1
        if code == _STOP:
            return
        argument = _ARGUMENTS.get(code)
        if argument is None:
            raise ValueError(f"byte {place} of the pickle is {code}, which is not an opcode")
        size, lines, length = argument
        place = start + size
        if length is not None and place <= end:
            place += length.unpack_from(packed, start)[0]
        for _ in range(lines):
            place = packed.find(b"\n", place) + 1 or end + 1
        if not start + size <= place <= end:  # a length may be negative
            break
        if code in (_PUT, _LONG_PUT):
            stored = packed[start:place]
            index = int(stored) if code == _PUT else int.from_bytes(stored, "little")
            if index > start:
                raise ValueError(f"the pickle stores an object at index {index} of its memo after only {start} bytes")
    raise ValueError("the pickle is cut off")


_KINDS = "?biufcSU"  # of the dtypes that can be read
_SCALARS = (type(None), bool, int, float, complex, str, bytes)


def load_plain(file: IO[bytes], encoding: str = "ASCII") -> Any:
    """
    Read a pickle of any protocol, written by Python 2 or 3. Call it inside `utils.errors.parsing`.

    Args:
        file: a file opened for reading, at the start of the pickle. It is read to its end.
        encoding: encoding of Python 2's strings; "bytes" returns them as bytes.

    Returns:
        The value. Arrays are new and writable.

    Raises:
        Exception: of nearly any type, if the pickle is damaged, claims wrong sizes, or contains anything
            other than plain data, which is not run.
        OSError: the file cannot be read.
    """
    packed = file.read()
    check_pickle_sizes(packed)
    return _Finisher().finished(_Unpickler(io.BytesIO(packed), encoding=encoding).load())


def check_plain(value: Any) -> None:
    """
    Raise an error if `load_plain` cannot read a value.

    Raises:
        TypeError: the value contains another type, which the message names.
    """
    kind = type(value)
    if kind in _SCALARS:
        return
    if kind in (list, tuple, set, frozenset):
        for element in value:
            check_plain(element)
    elif kind is dict:
        for key, element in value.items():
            check_plain(key)
            check_plain(element)
    elif kind is np.ndarray and value.dtype.kind == "O":
        for element in value.flat:
            check_plain(element)
    elif not (kind is np.ndarray or isinstance(value, np.generic)) or value.dtype.kind not in _KINDS:
        what = f"an array of {value.dtype}" if kind is np.ndarray else kind.__name__
        raise TypeError(f"expected numbers, strings, lists, dicts and arrays of them, got {what}")


class _Unpickler(pickle.Unpickler):
    """Unpickler that accepts only the names in pickles of plain data."""

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        module = module.replace("numpy._core", "numpy.core").replace("__builtin__", "builtins")
        replacement = _REPLACEMENTS.get((module, name))
        if replacement is None:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which was not run")
        return partial(replacement)  # a new object, because a pickle can set attributes of it


class _Dtype:
    """A dtype. Only the byte order is read from its state."""

    def __init__(self, code: str | bytes, *_flags: object) -> None:
        self.dtype = np.dtype(_text(code))
        if self.dtype.kind not in _KINDS + "O":
            raise pickle.UnpicklingError(f"an array of dtype {self.dtype}")

    def __setstate__(self, state: tuple) -> None:
        if _text(state[1]) in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(_text(state[1]))  # type: ignore[arg-type]


class _Array:
    """Placeholder that holds an array once the unpickler has set its state."""

    value: np.ndarray

    def __setstate__(self, state: tuple) -> None:
        _version, shape, dtype, is_fortran, content = state
        self.value = _array_of(content, dtype, shape, "F" if is_fortran else "C")


def _array_of(content: Any, dtype: _Dtype, shape: tuple[int, ...], order: str) -> np.ndarray:
    if dtype.dtype.kind == "O":
        flat = np.empty(len(content), dtype=object)
        for place, element in enumerate(content):
            flat[place] = element
    else:
        flat = np.frombuffer(content, dtype.dtype)
    order = "F" if order == "F" else "C"
    return np.array(flat.reshape(shape, order=order), order=order)  # type: ignore[call-overload]


def _new_array(*_arguments: object) -> _Array:
    """Replace NumPy's `_reconstruct` and `ndarray`."""
    return _Array()


def _buffer_array(content: bytes, dtype: _Dtype, shape: tuple[int, ...], order: str = "C") -> _Array:
    """Replace NumPy's `_frombuffer` of pickle protocol 5."""
    array = _Array()
    array.value = _array_of(content, dtype, shape, order)
    return array


def _scalar(dtype: _Dtype, content: bytes) -> np.generic:
    if dtype.dtype.kind == "O":
        raise pickle.UnpicklingError("a scalar of dtype object")
    return np.frombuffer(content, dtype.dtype)[0]


def _encoded(text: str, _encoding: object = None) -> bytes:
    """Replace `_codecs.encode`, with which Python 3 writes bytes for Python 2."""
    return text.encode("latin1")


def _bytearray(content: object = b"", encoding: str = "latin1") -> bytearray:
    """Replace `bytearray`, which also accepts a size and would allocate it."""
    if not isinstance(content, (bytes, str)):
        raise pickle.UnpicklingError("it makes a bytearray from a size, which was not run")
    return bytearray(content.encode(encoding) if isinstance(content, str) else content)


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


_REPLACEMENTS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _new_array,  # only used as the argument of _reconstruct
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _buffer_array,
    ("_codecs", "encode"): _encoded,
    ("builtins", "bytearray"): _bytearray,
    ("builtins", "complex"): complex,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("collections", "OrderedDict"): dict,
}


class _Finisher:
    """Replacement of placeholders by their arrays. An object that occurs twice is converted once."""

    def __init__(self) -> None:
        # without it, 40 nested lists that each hold the next one twice would become 2^40 lists
        self._known: dict[int, Any] = {}

    def finished(self, value: object) -> object:
        """Return the value with arrays in place of placeholders."""
        if not isinstance(value, (_Array, list, tuple, dict)):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = self._built(value)
        return self._known[id(value)]

    def _built(self, value: _Array | list | tuple | dict) -> object:
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.finished, value))
        if isinstance(value, dict):
            return {key: self.finished(element) for key, element in value.items()}
        array = value.value
        if array.dtype.kind != "O":
            return array
        objects = np.empty(array.size, dtype=object)
        for place, element in enumerate(array.ravel().tolist()):
            objects[place] = self.finished(element)
        return objects.reshape(array.shape)
