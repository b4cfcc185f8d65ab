"""Functions and values that NumPy has removed, with the meaning that they had."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Callable, Sequence

import numpy as np

from .said import say

NINF, PZERO, NZERO = -np.inf, 0.0, -0.0
SCTYPES: dict[str, list[Any]] = {
    "int": [np.int8, np.int16, np.int32, np.int64],
    "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
    "float": [np.float16, np.float32, np.float64, np.longdouble],
    "complex": [np.complex64, np.complex128, np.clongdouble],
    "others": [bool, object, bytes, str, np.void],
}


class _Casts(dict):
    """`np.cast`: `np.cast["float32"](x)` is `np.asarray(x, "float32")`."""

    def __missing__(self, dtype: Any) -> Callable[[Any], np.ndarray]:
        return lambda x: np.asarray(x).astype(dtype)


class _Sizes(dict):
    """`np.nbytes`: the number of bytes of a dtype."""

    def __missing__(self, dtype: Any) -> int:
        return np.dtype(dtype).itemsize


cast, nbytes = _Casts(), _Sizes()


def asscalar(a: Any) -> Any:
    """Return the only element of an array as a number of Python."""
    return a.item()


def alen(a: Any) -> int:
    """Return the length of the first axis; 1 for a scalar."""
    return len(np.array(a, ndmin=1))


def asfarray(a: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return an array of floats."""
    dtype = np.dtype(dtype)
    return np.asarray(a, dtype=dtype if np.issubdtype(dtype, np.inexact) else np.float64)


def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> np.ndarray:
    """Return, for each element of the flattened `ar1`, whether `ar2` contains it."""
    return np.isin(np.asarray(ar1).ravel(), ar2, assume_unique=assume_unique, invert=invert)


def msort(a: Any) -> np.ndarray:
    """Return a copy that is sorted along the first axis."""
    return np.sort(a, axis=0)


def disp(mesg: Any, device: Any = None, linefeed: bool = True) -> None:
    """Write a message to stdout, or to a file."""
    stream = device or sys.stdout
    if stream is not None:
        stream.write(f"{mesg}\n" if linefeed else f"{mesg}")
        stream.flush()


def deprecate(*args: Any, **kwargs: Any) -> Any:
    """Return the function that is declared deprecated, or a decorator that does."""
    return args[0] if args and callable(args[0]) else lambda function: function


def set_string_function(f: Callable[[Any], str] | None, repr: bool = True) -> None:
    """
    Set the function for `repr(array)`; None: NumPy's own.

    Raises:
        NotImplementedError: the function is for `str(array)`, for which NumPy 2 takes none.
    """
    options: Any = {"override_repr": f}
    if repr:
        np.set_printoptions(**options)
    elif f is not None:
        raise NotImplementedError(
            "np.set_string_function: NumPy 2 has no function for str(array) (expected repr=True, got repr=False). "
            'Print the text that the function returns, or run: pip install "numpy<2"'
        )


def random_integers(low: int, high: int | None = None, size: Any = None) -> Any:
    """Return random integers from `low` to `high`, both included; from 1 to `low` without `high`."""
    low, high = (1, low) if high is None else (low, high)
    return np.random.randint(low, high + 1, size)


# Types -------------------------------------------------------------------------------------------------------------------
def issctype(rep: Any) -> bool:
    """Return whether a value stands for a dtype of scalars."""
    if not isinstance(rep, (type, np.dtype)):
        return False
    return rep is not np.object_ and obj2sctype(rep) not in (None, np.object_)


def obj2sctype(rep: Any, default: Any = None) -> Any:
    """Return the type of scalars that a value stands for, such as `np.float64` for `float`."""
    if isinstance(rep, np.ndarray):
        return rep.dtype.type
    if isinstance(rep, type) and issubclass(rep, np.generic):
        return rep
    try:
        return np.dtype(rep).type
    except TypeError:
        return default


def issubsctype(arg1: Any, arg2: Any) -> bool:
    """Return whether the first type of scalars is below the second one."""
    kinds = [one if isinstance(one, type) and issubclass(one, np.generic) else obj2sctype(one) for one in (arg1, arg2)]
    return issubclass(*kinds)


def sctype2char(sctype: Any) -> str:
    """Return the character of a dtype, such as "f" for float32."""
    kind = obj2sctype(sctype)
    if kind is None:
        raise ValueError("unrecognized type")
    return np.dtype(kind).char


def maximum_sctype(t: Any) -> Any:
    """Return the largest type of scalars of the same kind."""
    kind = obj2sctype(t)
    families = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
    family = families.get(np.dtype(kind).kind) if kind is not None else None
    return SCTYPES[family][-1] if family else kind


def find_common_type(array_types: Sequence[Any], scalar_types: Sequence[Any]) -> Any:
    """Return the dtype for arrays and scalars of some dtypes; scalars decide only by a higher kind."""
    arrays, scalars = (
        np.result_type(*[np.dtype(one) for one in types]) if len(types) else None
        for types in (array_types, scalar_types)
    )
    if arrays is None or scalars is None:
        return arrays if scalars is None else scalars
    kinds = "buifc"
    if arrays.kind not in kinds or scalars.kind not in kinds:
        return None
    return scalars if kinds.index(scalars.kind) > kinds.index(arrays.kind) else arrays


# Files -------------------------------------------------------------------------------------------------------------------
def recfromtxt(fname: Any, **kwargs: Any) -> Any:
    """Read a text file into a record array."""
    kwargs.setdefault("dtype", None)
    use_mask = kwargs.get("usemask", False)
    output = np.genfromtxt(fname, **kwargs)
    return output if use_mask else output.view(np.recarray)


def recfromcsv(fname: Any, **kwargs: Any) -> Any:
    """Read a file with comma-separated values and a line of names into a record array."""
    for key, value in {"case_sensitive": "lower", "names": True, "delimiter": ",", "dtype": None}.items():
        kwargs.setdefault(key, value)
    return recfromtxt(fname, **kwargs)


# Arguments ---------------------------------------------------------------------------------------------------------------
def complete(module: ModuleType) -> None:
    """Let `np.fromstring` read bytes."""
    if tuple(int(part) for part in module.__version__.split(".")[:2]) < (2, 3):
        return
    plain = module.fromstring

    def fromstring(string: Any, dtype: Any = float, count: int = -1, **kwargs: Any) -> np.ndarray:
        """Return the numbers in a text; without `sep`, those in bytes."""
        if kwargs.get("sep", ""):
            return plain(string, dtype, count, **kwargs)
        say("numpy.fromstring", "numpy.fromstring of bytes, which was removed, is a copy of numpy.frombuffer.")
        data = string.encode("latin-1") if isinstance(string, str) else string
        return np.frombuffer(data, dtype, count).copy()

    vars(module)["fromstring"] = fromstring
