"""Arithmetic of Python 2, for files that are translated from it; see `rewrite.py`."""

from __future__ import annotations

import decimal
import math
import numbers
import operator
from typing import Any, Callable

_CONTEXT = decimal.Context(prec=1100)  # enough for all digits of each float


def divide(a: Any, b: Any) -> Any:
    """Return `a / b` as in Python 2: integers are rounded down."""
    if _are_integers(a, b):
        return a // b
    for one, name, other in ((a, "__div__", b), (b, "__rdiv__", a)):
        method = getattr(type(one), name, None)  # such as TensorFlow's tensors
        if method is not None:
            return method(one, other)
    return a / b


def idivide(a: Any, b: Any) -> Any:
    """Return what `a /= b` makes of `a` in Python 2. Arrays are changed in place."""
    if _are_integers(a, b):
        return operator.ifloordiv(a, b)
    method = getattr(type(a), "__idiv__", None)
    if method is not None:
        return method(a, b)
    return operator.itruediv(a, b) if hasattr(type(a), "__itruediv__") else divide(a, b)


def _are_integers(a: Any, b: Any) -> bool:
    """Return whether two values are integers or arrays of integers."""
    if isinstance(a, numbers.Integral) and isinstance(b, numbers.Integral):
        return True
    kinds = [getattr(getattr(one, "dtype", None), "kind", "") for one in (a, b)]
    whole = [kind in "iu" if kind else isinstance(one, numbers.Integral) for kind, one in zip(kinds, (a, b))]
    return any(kinds) and all(whole)


class Places:
    """The items of a container; `Places(x)[i]` is the place whose `value` is `x[i]`."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def __getitem__(self, index: Any) -> _Place:
        return _Place(self._container, index)


class _Place:
    def __init__(self, container: Any, index: Any) -> None:
        self._container = container
        self._index = index

    @property
    def value(self) -> Any:
        return self._container[self._index]

    @value.setter
    def value(self, value: Any) -> None:
        self._container[self._index] = value


# Rounding ------------------------------------------------------------------------------------------------------------------
def floated(function: Any) -> Any:
    """Return the function of Python 2, which gives floats, for `round`, `math.ceil` and `math.floor`; others as they are."""
    if function is round:
        return _round
    return _whole_float(function) if function is math.ceil or function is math.floor else function


def _round(number: Any, ndigits: int = 0) -> float:
    """Return a number rounded to some digits after the decimal point; halves are rounded away from zero."""
    number = float(number)
    if not math.isfinite(number) or ndigits > 400:
        return number
    unit = decimal.Decimal(1).scaleb(-ndigits, _CONTEXT)
    return float(decimal.Decimal(number).quantize(unit, decimal.ROUND_HALF_UP, _CONTEXT))


def _whole_float(function: Callable[[float], int]) -> Callable[[Any], float]:
    def rounded(x: Any) -> float:
        x = float(x)
        return math.copysign(function(x), x) if math.isfinite(x) else x

    return rounded
