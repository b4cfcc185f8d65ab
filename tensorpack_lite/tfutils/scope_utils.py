"""Decorators and contexts for variable scopes and name scopes."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import Any, Callable, Iterator, TypeVar
from weakref import WeakKeyDictionary

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.argtools import graph_memoized

__all__ = ["auto_reuse_variable_scope", "cached_name_scope", "under_name_scope"]

Func = TypeVar("Func", bound=Callable[..., Any])


def auto_reuse_variable_scope(func: Func) -> Func:
    """
    Decorator: create the variables of a function in its first call, and reuse them in later calls.

    First calls are counted separately for each graph and each variable scope the function is called in. A
    first call in a scope with reuse already reuses variables.

    Args:
        func: a function or method. The instances of a class share the count.

    Example:
        >>> @auto_reuse_variable_scope
        ... def discriminator(image): ...
        >>> real, fake = discriminator(image), discriminator(generated)         # the same weights
    """
    scopes_used: WeakKeyDictionary = WeakKeyDictionary()  # graph -> names of variable scopes

    @functools.wraps(func)
    def wrapper(*args: object, **kwargs: object) -> Any:
        ensure_graph_mode()
        scope = tf.get_variable_scope()
        used = scopes_used.setdefault(tf.get_default_graph(), set())
        if scope.name in used:
            with tf.variable_scope(scope, reuse=True, auxiliary_name_scope=False):
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        used.add(scope.name)
        return result

    return wrapper  # type: ignore[return-value]


def under_name_scope(name_scope: str | None = None) -> Callable[[Func], Func]:
    """
    Decorator: run a function under a name scope. The function gets an additional keyword argument, `name_scope`.

    Each call without this argument opens a new scope (`f`, `f_1`, ...). All calls with `name_scope="x"` open
    the same scope `x` inside the current one.

    Args:
        name_scope: the scope of calls without `name_scope`. None means the function's name.

    Example:
        >>> @under_name_scope()
        ... def rms(x):
        ...     return tf.sqrt(tf.reduce_mean(tf.square(x)))        # operations rms/Sqrt, rms_1/Sqrt ...
        >>> rms(x, name_scope="size")                               # size/Sqrt
    """

    def decorate(func: Func) -> Func:
        default = name_scope or func.__name__

        @functools.wraps(func)
        def wrapper(*args: object, **kwargs: Any) -> Any:
            requested = kwargs.pop("name_scope", None)
            if requested is None:
                with tf.name_scope(default):
                    return func(*args, **kwargs)
            with cached_name_scope(requested, top_level=False) as opened:
                _warn_if_renamed(requested, opened)
                return func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def under_variable_scope() -> Callable[[Func], Func]:
    """
    Decorator: run a function under a variable scope with the function's name.

    Example:
        >>> @under_variable_scope()
        ... def encoder(x): ...                     # its variables are encoder/...
    """

    def decorate(func: Func) -> Func:
        @functools.wraps(func)
        def wrapper(*args: object, **kwargs: object) -> Any:
            ensure_graph_mode()
            with tf.variable_scope(func.__name__):
                return func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


@contextmanager
def cached_name_scope(name: str, top_level: bool = True) -> Iterator[str]:
    """
    Open a name scope that is the same in each call: `x/`, never `x_1/`.

    Args:
        name: name of the scope.
        top_level: open it at the root of the graph instead of inside the current name scope.

    Yields:
        The scope's full name with a trailing slash.
    """
    outer = "" if top_level else tf.get_default_graph().get_name_scope()
    with tf.name_scope(_scope_made_once(name, outer)) as scope:
        yield scope


@graph_memoized
def _scope_made_once(name: str, outer: str) -> str:
    with tf.name_scope(outer + "/" if outer else None), tf.name_scope(name) as scope:
        return scope


def _warn_if_renamed(requested: str, opened: str) -> None:
    last = opened.rstrip("/").rsplit("/", 1)[-1]
    if last != requested.rstrip("/").rsplit("/", 1)[-1]:
        logger.warning(f"Name scope '{requested}' already exists in this graph. Using '{last}' instead.")
