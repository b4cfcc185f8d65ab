"""The positional arguments of librosa's functions, most of which are keyword-only from librosa 0.10 on, and `filters.dct`."""

from __future__ import annotations

import functools
from types import FunctionType, ModuleType
from typing import Any, Callable

import numpy as np

from .said import say


def complete(module: ModuleType) -> None:
    """Let the functions that a module of librosa defines take their keyword-only arguments by position."""
    for name, value in list(vars(module).items()):
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            code = getattr(value, "__wrapped__", value).__code__
            if code.co_kwonlyargcount and not code.co_flags & 0x04:  # it has no *args
                vars(module)[name] = _by_position(value, code.co_varnames, code)


def dct(n_filters: int, n_input: int) -> np.ndarray:
    """Return the first rows of the matrix of the discrete cosine transform (type II, orthonormal), [n_filters, n_input]."""
    angles = np.outer(np.arange(n_filters), np.arange(1, 2 * n_input, 2)) * np.pi / (2 * n_input)
    basis = np.cos(angles) * np.sqrt(2 / n_input)
    basis[:1] = 1 / np.sqrt(n_input)
    return basis


def _by_position(function: Callable[..., Any], names: tuple[str, ...], code: Any) -> Callable[..., Any]:
    positional = code.co_argcount
    later = names[positional : positional + code.co_kwonlyargcount]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        extra = args[positional:]
        if not extra or len(extra) > len(later):
            return function(*args, **kwargs)
        name = f"{function.__module__}.{function.__name__}"
        say(name, f"positional arguments of {name}, which were removed, are {', '.join(later[: len(extra)])}.")
        return function(*args[:positional], **dict(zip(later, extra)), **kwargs)

    return call
