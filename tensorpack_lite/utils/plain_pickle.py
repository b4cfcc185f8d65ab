"""
Reader of pickles that hold plain data; it runs nothing that is in them.

In:  a pickle of numbers, strings, lists, tuples, sets, dicts and NumPy arrays.
Out: the same, new.

The functions that such a pickle names are replaced by functions of this file, which make arrays from the bytes that are
there. NumPy's own functions, which allocate whatever the pickle claims, are never called.
"""

from __future__ import annotations

import io
import pickle
from functools import partial
from typing import IO, Any, Callable

import numpy as np

from .pickle_sizes import check_pickle_sizes

__all__ = ["check_plain", "load_plain"]

_KINDS = "?biufcSU"  # of the dtypes that can be read
_SCALARS = (type(None), bool, int, float, complex, str, bytes)


def load_plain(file: IO[bytes], encoding: str = "ASCII") -> Any:
    """
    Read one pickle, of any protocol and of Python 2 or 3. Call it inside `utils.errors.parsing`.

    Args:
        file: open for reading at the start of the pickle; it is read to its end.
        encoding: of the strings of Python 2; "bytes" gives them as bytes.

    Returns:
        The value. Arrays are new and belong to the caller.

    Raises:
        Exception: of nearly any type, if the pickle is damaged, claims sizes that it does not have, or holds anything
            other than plain data, which is not run.
        OSError: the file cannot be read.
    """
    packed = file.read()
    check_pickle_sizes(packed)
    return _Finisher().finished(_Unpickler(io.BytesIO(packed), encoding=encoding).load())


def check_plain(value: Any) -> None:
    """
    Find out whether `load_plain` would read a value.

    Raises:
        TypeError: it would not; names the type that is in the way.
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
        raise TypeError(f"takes numbers, texts, lists, dicts and arrays of them, got {what}")


class _Unpickler(pickle.Unpickler):
    """Knows the names that pickles of plain data use, and no other."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core", "numpy.core").replace("__builtin__", "builtins")
        stand_in = _STAND_INS.get((module, name))
        if stand_in is None:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which was not run")
        return partial(stand_in)  # a new one each time, because a pickle can set attributes of what it gets


class _Dtype:
    """A dtype; of its state only the byte order is believed."""

    def __init__(self, code: Any) -> None:
        self.dtype = np.dtype(_text(code))
        if self.dtype.kind not in _KINDS + "O":
            raise pickle.UnpicklingError(f"an array of dtype {self.dtype}")

    def __setstate__(self, state: Any) -> None:
        if _text(state[1]) in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(_text(state[1]))  # type: ignore[arg-type]


class _Array:
    """Becomes an array when the unpickler gives it the state of one."""

    value: np.ndarray

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, is_fortran, content = state
        self.value = _array_of(content, dtype, shape, "F" if is_fortran else "C")


def _array_of(content: Any, dtype: _Dtype, shape: Any, order: str) -> np.ndarray:
    if dtype.dtype.kind == "O":
        flat = np.empty(len(content), dtype=object)
        for place, element in enumerate(content):
            flat[place] = element
    else:
        flat = np.frombuffer(content, dtype.dtype)
    order = "F" if order == "F" else "C"
    return np.array(flat.reshape(shape, order=order), order=order)  # type: ignore[call-overload,no-any-return]


def _new_dtype(code: Any, *_flags: Any) -> _Dtype:
    return _Dtype(code)


def _new_array(*_arguments: Any) -> _Array:
    """Stand in for NumPy's `_reconstruct`, and for the name of its class."""
    return _Array()


def _buffer_array(content: Any, dtype: _Dtype, shape: Any, order: str = "C") -> _Array:
    """Stand in for NumPy's `_frombuffer`, of pickle protocol 5."""
    array = _Array()
    array.value = _array_of(content, dtype, shape, order)
    return array


def _scalar(dtype: _Dtype, content: Any) -> Any:
    if dtype.dtype.kind == "O":
        raise pickle.UnpicklingError("a scalar of dtype object")
    return np.frombuffer(content, dtype.dtype)[0]


def _encoded(text: str, _encoding: Any = None) -> bytes:
    """Stand in for `_codecs.encode`: bytes that Python 3 wrote for Python 2."""
    return text.encode("latin1")


def _bytearray(content: Any = b"", encoding: str = "latin1") -> bytearray:
    """Stand in for `bytearray`, which would also take a size, of any amount of memory."""
    if not isinstance(content, (bytes, str)):
        raise pickle.UnpicklingError("it makes a bytearray from a size, which was not run")
    return bytearray(content.encode(encoding) if isinstance(content, str) else content)


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


_STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _new_dtype,
    ("numpy", "ndarray"): _new_array,  # only named, as the argument of the next
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
    """Puts the arrays in the place of what stood for them; an object that occurs twice is finished once."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}  # without it, 40 lists of twice the list before would become 2^40

    def finished(self, value: Any) -> Any:
        """Return the value with all its arrays."""
        if not isinstance(value, (_Array, list, tuple, dict)):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = self._built(value)
        return self._known[id(value)]

    def _built(self, value: Any) -> Any:
        if isinstance(value, _Array):
            return self._array(value.value)
        if isinstance(value, list):
            return [self.finished(element) for element in value]
        if isinstance(value, tuple):
            return tuple(self.finished(element) for element in value)
        return {key: self.finished(element) for key, element in value.items()}

    def _array(self, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind != "O":
            return array
        objects = np.empty(array.size, dtype=object)
        for place, element in enumerate(array.ravel().tolist()):
            objects[place] = self.finished(element)
        return objects.reshape(array.shape)
