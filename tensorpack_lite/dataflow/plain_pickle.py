"""
Pickles of datapoints, read without running anything that is in them.

In:  a pickle of numbers, texts, lists, tuples, sets, dicts and NumPy arrays.
Out: the same, new.

The functions that such a pickle names are replaced by ones of this file, which take bytes and make arrays of them; NumPy's
own, which would believe whatever the pickle says, are never called.
"""

from __future__ import annotations

import pickle
from typing import IO, Any

import numpy as np

__all__ = ["check_plain", "load_plain"]

_KINDS = "?biufcSU"  # of the dtypes that can be read
_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_BUILTINS = {"complex": complex, "set": set, "frozenset": frozenset, "bytearray": bytearray}


def load_plain(file: IO[bytes]) -> Any:
    """
    Read one pickle.

    Args:
        file: open for reading, where the pickle begins.

    Raises:
        ValueError: it is damaged, or has in it what is not plain data; that is not run.
    """
    try:
        return _finished(_Unpickler(file).load())
    except OSError:
        raise
    except Exception as error:  # a damaged or hostile pickle makes the unpickler raise anything
        raise ValueError(f"the pickle holds more than plain data, or is damaged: {error}") from error


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
        if module == "builtins" and name in _BUILTINS:
            return _BUILTINS[name]
        stand_in = _STAND_INS.get((module.replace("numpy._core", "numpy.core"), name))
        if stand_in is None:
            raise pickle.UnpicklingError(f"it wants {module}.{name}, which was not run")
        return stand_in


class _Dtype:
    """A dtype; of its state only the byte order is believed."""

    def __init__(self, code: str, *_flags: Any) -> None:
        self.dtype = np.dtype(code)
        if self.dtype.kind not in _KINDS + "O":
            raise pickle.UnpicklingError(f"an array of dtype {self.dtype}")

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Becomes an array when the unpickler gives it the state of one."""

    value: np.ndarray

    def __init__(self, *_arguments: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, is_fortran, content = state
        if dtype.dtype.kind == "O":
            flat = np.empty(len(content), dtype=object)
            for place, element in enumerate(content):
                flat[place] = element
        else:
            flat = np.frombuffer(content, dtype.dtype)
        order = "F" if is_fortran else "C"
        self.value = np.array(flat.reshape(shape, order=order), order=order)  # type: ignore[call-overload]


class _NdarrayName:
    """Stands for the name `numpy.ndarray`, which a pickle gives to `_reconstruct`."""


def _scalar(dtype: _Dtype, content: bytes) -> Any:
    if dtype.dtype.kind == "O":
        raise pickle.UnpicklingError("a scalar of dtype object")
    return np.frombuffer(content, dtype.dtype)[0]


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _NdarrayName,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): _scalar,
}


def _finished(value: Any) -> Any:
    """Put the arrays in the place of what stood for them."""
    if isinstance(value, _Array):
        array = value.value
        if array.dtype.kind == "O":
            finished = np.empty(array.size, dtype=object)
            for place, element in enumerate(array.ravel().tolist()):
                finished[place] = _finished(element)
            return finished.reshape(array.shape)
        return array
    if isinstance(value, list):
        return [_finished(element) for element in value]
    if isinstance(value, tuple):
        return tuple(_finished(element) for element in value)
    if isinstance(value, dict):
        return {key: _finished(element) for key, element in value.items()}
    return value
