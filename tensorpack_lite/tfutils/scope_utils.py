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

__all__ = ["auto_reuse_variable_scope", "cached_name_scope", "under_name_scope", "under_variable_scope"]

Func = TypeVar("Func", bound=Callable[..., Any])


def auto_reuse_variable_scope(func: Func) -> Func:
    """
    Decorator: let a function create variables at its first call, and reuse them at every later one.

    "First" is counted for each graph and each variable scope the function is called in. A first call where variables
    are reused already reuses them.

    Args:
        func: a function or method; the instances of a class share the count.

    Example:
        >>> @auto_reuse_variable_scope
        ... def discriminator(image): ...
        >>> real, fake = discriminator(image), discriminator(generated)         # the same weights

    tensorpack: same; a call that raised does not count here.
    """
    scopes_used: WeakKeyDictionary = WeakKeyDictionary()  # graph -> names of variable scopes

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
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
    Decorator: run a function under a name scope; the function gets one more keyword argument, `name_scope`.

    A call without that argument opens a new scope each time (`f`, `f_1`, ...). A call with `name_scope="x"` opens scope
    `x` inside the current one, the same one at each call.

    Args:
        name_scope: the scope of calls that name none; None means the function's name.

    Example:
        >>> @under_name_scope()
        ... def rms(x):
        ...     return tf.sqrt(tf.reduce_mean(tf.square(x)))        # operations rms/Sqrt, rms_1/Sqrt ...
        >>> rms(x, name_scope="size")                               # size/Sqrt

    tensorpack: same.
    """

    def decorate(func: Func) -> Func:
        default = name_scope or func.__name__

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            wanted = kwargs.pop("name_scope", None)
            if wanted is None:
                with tf.name_scope(default):
                    return func(*args, **kwargs)
            with cached_name_scope(wanted, top_level=False) as opened:
                _warn_if_renamed(wanted, opened)
                return func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def under_variable_scope() -> Callable[[Func], Func]:
    """
    Decorator: run a function under the variable scope of its name.

    Example:
        >>> @under_variable_scope()
        ... def encoder(x): ...                     # its variables are encoder/...

    tensorpack: same.
    """

    def decorate(func: Func) -> Func:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            ensure_graph_mode()
            with tf.variable_scope(func.__name__):
                return func(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


@contextmanager
def cached_name_scope(name: str, top_level: bool = True) -> Iterator[str]:
    """
    Open a name scope that is the same one at each call: `x/`, never `x_1/`.

    Args:
        name: of the scope.
        top_level: True opens it at the root of the graph; False inside the current name scope.

    Yields:
        The scope's full name, with a slash at its end.

    tensorpack: same.
    """
    outer = "" if top_level else tf.get_default_graph().get_name_scope()
    with tf.name_scope(_scope_made_once(name, outer)) as scope:
        yield scope


@graph_memoized
def _scope_made_once(name: str, outer: str) -> str:
    with tf.name_scope(outer + "/" if outer else None), tf.name_scope(name) as scope:
        return scope


def _warn_if_renamed(wanted: str, opened: str) -> None:
    last = opened.rstrip("/").rsplit("/", 1)[-1]
    if last != wanted.rstrip("/").rsplit("/", 1)[-1]:
        logger.warning(f"Name scope '{wanted}' is taken in this graph, '{last}' is used instead.")
