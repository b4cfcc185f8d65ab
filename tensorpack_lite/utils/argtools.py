"""Decorators that remember results, allow one call or convert arguments, and conversions of 2-D shapes."""

from __future__ import annotations

import functools
import inspect
import weakref
from numbers import Integral
from typing import Any, Callable, Sequence, TypeVar

from . import logger

__all__ = [
    "graph_memoized", "log_once", "map_arg", "memoized", "memoized_ignoreargs", "memoized_method", "shape2d",
    "shape4d",
]  # fmt: skip

Func = TypeVar("Func", bound=Callable[..., Any])
T = TypeVar("T")

_RESULTS = ("tensorpack_lite.utils.argtools.graph_memoized",)
_CHANNELS = {"NHWC": "channels_last", "NCHW": "channels_first"}


def map_arg(**maps: Callable[[Any], Any]) -> Callable[[Func], Func]:
    """
    Decorator: convert arguments of a function before it is called.

    Args:
        **maps: argument name -> function of the value. Arguments that are not passed are not converted.

    Example:
        >>> @map_arg(gpus=lambda gpus: list(range(gpus)) if isinstance(gpus, int) else gpus)
        ... def train(gpus): ...                    # train(4), train([0, 1, 2, 3]), train(gpus=4)
    """

    def decorate(func: Func) -> Func:
        signature = inspect.signature(func)

        @functools.wraps(func)
        def wrapper(*args: object, **kwargs: object) -> object:
            bound = signature.bind_partial(*args, **kwargs)
            for name, function in maps.items():
                if name in bound.arguments:
                    bound.arguments[name] = function(bound.arguments[name])
            return func(*bound.args, **bound.kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def memoized(func: Func) -> Func:
    """
    Decorator: remember the result of a function for each set of (hashable) arguments.

    Note:
        Arguments and results stay alive as long as the function. For methods, use `memoized_method`.
    """
    return functools.lru_cache(maxsize=None)(func)  # type: ignore[return-value]


def graph_memoized(func: Func) -> Func:
    """
    Decorator: like `memoized`, with separate results for each default graph.

    The results are released together with their graph.
    """
    name = _full_name(func)

    @functools.wraps(func)
    def wrapper(*args: object, **kwargs: object) -> object:
        from ..compat import tfv1

        # Stored in the graph: in a dictionary from graphs to results, even with weak keys, the results would keep their
        # graph alive. Collections whose key is not a string are not exported. The graph of a branch or a loop begins with a copy
        # of the collections around it, so each entry has its graph.
        graph = tfv1.get_default_graph()
        stored = graph.get_collection_ref(_RESULTS)
        own = [results for owner, results in stored if owner() is graph]
        if not own:
            own = [{}]
            stored.append((weakref.ref(graph), own[0]))
        return _remember(own[0], name, func, args, kwargs)

    return wrapper  # type: ignore[return-value]


def memoized_method(func: Func) -> Func:
    """
    Decorator: remember the result of a method for each instance and set of (hashable) arguments.

    The results are stored on the instance, in `_MEMOIZED_CACHE`, and released together with it.
    """
    name = _full_name(func)

    @functools.wraps(func)
    def wrapper(self: Any, *args: object, **kwargs: object) -> object:
        results = self.__dict__.setdefault("_MEMOIZED_CACHE", {})
        return _remember(results, name, functools.partial(func, self), args, kwargs)

    return wrapper  # type: ignore[return-value]


def memoized_ignoreargs(func: Func) -> Func:
    """Decorator: call a function once, and return its first result from then on, whatever the arguments."""
    results: list[object] = []

    @functools.wraps(func)
    def wrapper(*args: object, **kwargs: object) -> object:
        if not results:
            results.append(func(*args, **kwargs))
        return results[0]

    return wrapper  # type: ignore[return-value]


def call_only_once(func: Func) -> Func:
    """
    Decorator: allow one successful call of a method, or of a property's setter, on each instance.

    A call that raises may be repeated. A method of a subclass may call the decorated method of its base class.

    Raises:
        RuntimeError: at the second call.

    Example:
        >>> class Trainer:
        ...     @call_only_once
        ...     def initialize(self): ...
    """
    name = _full_name(func)

    @functools.wraps(func)
    def wrapper(self: Any, *args: object, **kwargs: object) -> object:
        called = self.__dict__.setdefault("_CALL_ONLY_ONCE_CACHE", set())
        if name in called:
            raise RuntimeError(
                f"{func.__qualname__}: this {type(self).__name__} has run it before (expected one call, got two). "
                "Create a new one."
            )
        called.add(name)  # before the call, so that a recursive call also raises
        try:
            return func(self, *args, **kwargs)
        except BaseException:  # a call that failed may be repeated
            called.discard(name)
            raise

    return wrapper  # type: ignore[return-value]


@memoized
def log_once(message: str, func: str = "info") -> None:
    """
    Log a message once per process.

    Args:
        message: the text.
        func: the logger's function, e.g. "warning".
    """
    getattr(logger, func)(message)


def shape2d(a: int | Sequence[int]) -> list[int]:
    """
    Return a pair for an integer or a pair.

    Args:
        a: an integer (also one of NumPy), or a list or tuple of two.

    Returns:
        `[a, a]`, or `list(a)`.

    Raises:
        ValueError: the list or tuple has another length.
        RuntimeError: `a` has another type.
    """
    if isinstance(a, Integral):
        return [int(a), int(a)]
    if not isinstance(a, (list, tuple)):
        raise RuntimeError(f"shape2d: wrong type (expected an integer or a list of two, got {a!r}).")
    if len(a) != 2:
        raise ValueError(f"shape2d: wrong length (expected an integer or a list of two, got {a!r}).")
    return list(a)


def shape4d(a: int | Sequence[int], data_format: str = "NHWC") -> list[int]:
    """
    Return the shape of a window over images, e.g. for `ksize` and `strides`.

    Args:
        a: height and width, as in `shape2d`.
        data_format: "NHWC" / "channels_last" or "NCHW" / "channels_first".

    Returns:
        `[1, h, w, 1]`, or `[1, 1, h, w]`.

    Raises:
        ValueError: `data_format` is unknown.
    """
    pair = shape2d(a)
    if get_data_format(data_format, keras_mode=False) == "NHWC":
        return [1] + pair + [1]
    return [1, 1] + pair


def get_data_format(data_format: str, keras_mode: bool = True) -> str:
    """
    Return Keras's or TensorFlow's name of a data format.

    Args:
        data_format: "NHWC", "NCHW", "channels_last" or "channels_first".
        keras_mode: True returns Keras's name ("channels_last", "channels_first"), False TensorFlow's ("NHWC", "NCHW").

    Raises:
        ValueError: `data_format` is unknown.
    """
    for tensorflow_name, keras_name in _CHANNELS.items():
        if data_format in (tensorflow_name, keras_name):
            return keras_name if keras_mode else tensorflow_name
    raise ValueError(
        "get_data_format: data_format is unknown "
        f"(expected 'NHWC', 'NCHW', 'channels_last' or 'channels_first', got {data_format!r})."
    )


def _full_name(func: Callable[..., object]) -> str:
    """Return a key for a function. Unlike the function itself, it can be pickled with the instance that stores it."""
    return f"{func.__module__}.{func.__qualname__}"


def _remember(results: dict[Any, T], name: str, func: Callable[..., T], args: tuple, kwargs: dict) -> T:
    key = name, args, tuple(sorted(kwargs.items()))
    if key not in results:
        results[key] = func(*args, **kwargs)
    return results[key]
