"""Deprecation warnings, and placeholders for classes and functions whose dependency is not installed."""

from __future__ import annotations

import functools
import itertools
import os
import traceback
from datetime import datetime
from typing import Any, Callable, Iterator, NoReturn, TypeVar

from . import logger
from .argtools import memoized

Func = TypeVar("Func", bound=Callable[..., Any])


def deprecated(text: str = "", eos: str = "", max_num_warnings: int | None = None) -> Callable[[Func], Func]:
    """
    Decorator: log a warning on each call of a deprecated function.

    Args:
        text: a sentence that names the replacement.
        eos: the date after which the function will be removed, "YYYY-MM-DD".
        max_num_warnings: maximum number of warnings. None: no limit.

    Raises:
        ValueError: `eos` is not a date in this form.

    Example:
        >>> @deprecated("Use get_num_gpu instead.", eos="2030-01-01")
        ... def get_nr_gpu(): ...
    """
    _readable_date(eos)  # raise at the definition, not at the first call

    def decorate(func: Func) -> Func:
        @functools.wraps(func)
        def wrapper(*args: object, **kwargs: object) -> object:
            name = f"{func.__name__} [{_caller()}]"
            log_deprecated(name, text, eos, max_num_warnings)
            return func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def log_deprecated(name: str = "", text: str = "", eos: str = "", max_num_warnings: int | None = None) -> None:
    """
    Log a warning for a deprecated name.

    Args:
        name: the deprecated name.
        text: a sentence that names the replacement.
        eos: the date after which the function will be removed, "YYYY-MM-DD".
        max_num_warnings: maximum number of warnings for this name (or text). None: no limit.

    Raises:
        ValueError: `eos` is not a date in this form.
    """
    if not name and not text:
        raise ValueError("log_deprecated: name and text are both empty (expected at least one of them).")
    date = _readable_date(eos)
    number = next(_warning_numbers(name or text))
    if max_num_warnings is not None and number > max_num_warnings:
        return
    sentence = ""
    if name:
        sentence = f"{name} is deprecated and will be removed {f'after {date}' if date else 'soon'}. "
    logger.warning("[Deprecated] " + sentence + text)


def create_dummy_class(klass: str, dependency: str) -> _Dummy:
    """
    Return a placeholder for a class whose dependency is not installed.

    Args:
        klass: the name of the class.
        dependency: the missing package.

    Returns:
        An object that raises an ImportError when it is called and an AttributeError when an attribute is
        read. Both name the class and the dependency.
    """
    return _Dummy(klass, dependency)


def create_dummy_func(func: str, dependency: str) -> _Dummy:
    """Return a placeholder for a function whose dependency is not installed; see `create_dummy_class`."""
    return _Dummy(func, dependency)


def building_rtfd() -> bool:
    """Return whether the documentation is being built."""
    return os.environ.get("READTHEDOCS") == "True" or bool(os.environ.get("DOC_BUILDING"))


def HIDE_DOC(func: Func) -> Func:  # noqa: N802 (upstream's name)
    """Decorator: mark a function as hidden from the documentation. The function is returned unchanged."""
    return func


class _Dummy:
    """Placeholder for a class or a function that cannot be imported."""

    def __init__(self, name: str, dependency: str) -> None:
        self._sentence = f"Cannot import '{dependency}', therefore '{name}' is not available. Install it first."

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise ImportError(self._sentence)

    def __getattr__(self, name: str) -> NoReturn:
        if name == "_sentence":  # not set yet: an object being copied or unpickled
            raise AttributeError(name)
        raise AttributeError(self._sentence)


@memoized
def _warning_numbers(what: str) -> Iterator[int]:
    """Return the iterator that numbers the warnings for one deprecated name."""
    return itertools.count(1)


def _readable_date(eos: str) -> str:
    if not eos:
        return ""
    try:
        return datetime.strptime(eos, "%Y-%m-%d").strftime("%d %b %Y")
    except ValueError as error:
        raise ValueError(f"deprecated: eos is not a date (expected 'YYYY-MM-DD', got {eos!r}).") from error


def _caller() -> str:
    """Return the file and line that called the deprecated function, two frames above this one."""
    caller = traceback.extract_stack(limit=3)[0]
    return f"{os.path.basename(caller.filename)}:{caller.lineno}"
