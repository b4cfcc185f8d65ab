"""
Pickles of plain data (numbers, texts, lists, dicts and arrays), read without running anything that is in them.

The functions that a pickle may name are replaced by ones of this file. They take the bytes of an array, and numpy's own
functions, which would believe whatever the pickle says, are never called.
"""

from __future__ import annotations

import io
import pickle
from functools import partial
from typing import Any, BinaryIO, Callable, Dict, Tuple

import numpy as np

__all__ = ["load_array_dict"]

_KINDS = "biuf"  # of numbers; no objects, no records


def load_array_dict(path: str) -> dict[str, Any]:
    """
    Read a pickled dict of arrays, as the files of CIFAR are, from Python 2 or 3.

    Args:
        path: of the file.

    Returns:
        The dict, its keys as str. Arrays are new and belong to the caller; what was a str of Python 2 is bytes.

    Raises:
        ValueError: the pickle is damaged, is not a dict, or has in it what is not plain data; that is not run.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        packed = io.BytesIO(file.read())
    try:
        content = _ArrayUnpickler(packed).load()
    except Exception as error:  # a damaged or hostile pickle makes the unpickler raise anything
        raise ValueError(f"{path} is not a pickle of plain data: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a pickled dict, it has {type(content).__name__} in it.")
    return {_text(key): _array(value) for key, value in content.items()}


class _Array:
    """Becomes an array when the unpickler gives it the state of one."""

    value: np.ndarray

    def __setstate__(self, state: Any) -> None:
        _version, shape, dtype, is_fortran, content = state
        self.value = _from_bytes(content, dtype, shape, "F" if is_fortran else "C")


class _Dtype:
    """A dtype of numbers; of its state only the byte order is believed."""

    def __init__(self, code: Any) -> None:
        self.dtype = np.dtype(_text(code)).newbyteorder("<")
        if self.dtype.kind not in _KINDS:
            raise pickle.UnpicklingError(f"an array of dtype {self.dtype}, wanted numbers")

    def __setstate__(self, state: Any) -> None:
        if _text(state[1]) == ">":
            self.dtype = self.dtype.newbyteorder(">")


class _ArrayUnpickler(pickle.Unpickler):
    """Knows the six names that pickles of arrays use, and no other."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="bytes")

    def find_class(self, module: str, name: str) -> Any:
        stand_in = _STAND_INS.get((module.replace("numpy._core", "numpy.core"), name))
        if stand_in is None:
            raise pickle.UnpicklingError(f"it wants to use {module}.{name}, which was not run")
        return partial(stand_in)  # a new one each time, because a pickle can set attributes of what it gets


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _array(value: Any) -> Any:
    return value.value if isinstance(value, _Array) else value


def _from_bytes(content: Any, dtype: _Dtype, shape: Tuple[int, ...], order: str) -> np.ndarray:
    values = np.frombuffer(content, dtype.dtype)
    return np.array(values.reshape(shape, order="F" if order == "F" else "C"))


def _new_array(*_arguments: Any) -> _Array:
    """Stand in for numpy's `_reconstruct`."""
    return _Array()


def _buffer_array(content: Any, dtype: _Dtype, shape: Tuple[int, ...], order: str = "C") -> _Array:
    """Stand in for numpy's `_frombuffer`, of pickle protocol 5."""
    array = _Array()
    array.value = _from_bytes(content, dtype, shape, order)
    return array


def _scalar(dtype: _Dtype, content: Any) -> Any:
    return _from_bytes(content, dtype, (1,), "C").item()


def _new_dtype(code: Any, *_flags: Any) -> _Dtype:
    return _Dtype(code)


def _encoded(text: str, _encoding: Any = None) -> bytes:
    """Stand in for `_codecs.encode`: bytes that Python 3 wrote for Python 2."""
    return text.encode("latin1")


_STAND_INS: Dict[Tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _new_dtype,
    ("numpy", "ndarray"): _new_array,  # only named, as the argument of the next
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _buffer_array,
    ("_codecs", "encode"): _encoded,
}
