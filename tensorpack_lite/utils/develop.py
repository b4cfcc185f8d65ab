"""Deprecation of names, and stand-ins for classes and functions whose dependency is not installed."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
from datetime import datetime
from typing import Any, Callable, Iterator, NoReturn, TypeVar

from . import logger
from .argtools import memoized

__all__ = [
    "HIDE_DOC",
    "building_rtfd",
    "create_dummy_class",
    "create_dummy_func",
    "deprecated",
    "log_deprecated",
]

Func = TypeVar("Func", bound=Callable[..., Any])


def deprecated(text: str = "", eos: str = "", max_num_warnings: int | None = None) -> Callable[[Func], Func]:
    """
    Decorator: warn on each call that a function is deprecated.

    Args:
        text: what to use instead.
        eos: the date after which it will be removed, "YYYY-MM-DD".
        max_num_warnings: warn at most so many times; None: always.

    Raises:
        ValueError: `eos` is not such a date.

    Example:
        >>> @deprecated("Use get_num_gpu instead.", eos="2030-01-01")
        ... def get_nr_gpu(): ...

    tensorpack: same.
    """
    _readable_date(eos)  # complain where it is written, not where it is called

    def decorate(func: Func) -> Func:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            name = f"{func.__name__} [{_caller()}]"
            log_deprecated(name, text, eos, max_num_warnings)
            return func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def log_deprecated(
    name: str = "", text: str = "", eos: str = "", max_num_warnings: int | None = None
) -> None:
    """
    Warn that something is deprecated.

    Args:
        name: what.
        text: what to use instead.
        eos: the date after which it will be removed, "YYYY-MM-DD".
        max_num_warnings: warn at most so many times of this name (or text); None: always.

    Raises:
        ValueError: `eos` is not such a date.

    tensorpack: same.
    """
    if not name and not text:
        raise ValueError("log_deprecated: needs a name or a text to say what is deprecated.")
    date = _readable_date(eos)
    number = next(_warning_numbers(name or text))
    if max_num_warnings is not None and number > max_num_warnings:
        return
    sentence = ""
    if name:
        sentence = f"{name} is deprecated and will be removed {f'after {date}' if date else 'soon'}. "
    logger.warning("[Deprecated] " + sentence + text)


def create_dummy_class(klass: str, dependency: str) -> Any:
    """
    Stand in for a class whose dependency is not installed.

    Args:
        klass: its name.
        dependency: the package that is missing.

    Returns:
        An object which raises ImportError when called, and AttributeError when asked for an attribute; both name the
        class and the dependency.

    tensorpack: same; there it is a class.
    """
    return _Dummy(klass, dependency)


def create_dummy_func(func: str, dependency: str) -> Any:
    """
    Stand in for a function whose dependency is not installed; see `create_dummy_class`.

    tensorpack: same.
    """
    return _Dummy(func, dependency)


def building_rtfd() -> bool:
    """
    Tell whether the documentation is being built.

    tensorpack: same.
    """
    return os.environ.get("READTHEDOCS") == "True" or bool(os.environ.get("DOC_BUILDING"))


def HIDE_DOC(func: Func) -> Func:  # noqa: N802 (upstream's name)
    """
    Decorator: mark a function as not for the documentation. It is returned as it is.

    tensorpack: same.
    """
    return func


class _Dummy:
    """What stands for a class or a function that cannot be imported."""

    def __init__(self, name: str, dependency: str) -> None:
        self._sentence = (
            f"Cannot import '{dependency}', therefore '{name}' is not available. Install it first."
        )

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ImportError(self._sentence)

    def __getattr__(self, name: str) -> NoReturn:
        if name == "_sentence":  # not set yet: an object being copied or unpickled
            raise AttributeError(name)
        raise AttributeError(self._sentence)


@memoized
def _warning_numbers(what: str) -> Iterator[int]:
    """For each deprecated thing one iterator, which numbers its warnings."""
    return itertools.count(1)


def _readable_date(eos: str) -> str:
    if not eos:
        return ""
    try:
        return datetime.strptime(eos, "%Y-%m-%d").strftime("%d %b %Y")
    except ValueError as error:
        raise ValueError(f"deprecated: eos must be a date 'YYYY-MM-DD', got {eos!r}.") from error


def _caller() -> str:
    """Name the line that called the deprecated function: two frames above this one."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame is not None else None
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame is not None else "?"
