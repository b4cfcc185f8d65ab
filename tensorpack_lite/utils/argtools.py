"""Decorators on functions and methods: remember the result, allow one call, translate an argument; and shapes."""

from __future__ import annotations

import functools
import inspect
from numbers import Integral
from typing import Any, Callable, Hashable, Sequence, TypeVar

from . import logger

__all__ = [
    "call_only_once",
    "get_data_format",
    "graph_memoized",
    "log_once",
    "map_arg",
    "memoized",
    "memoized_ignoreargs",
    "memoized_method",
    "shape2d",
    "shape4d",
]

Func = TypeVar("Func", bound=Callable[..., Any])

_CHANNELS = {"NHWC": "channels_last", "NCHW": "channels_first"}


def map_arg(**maps: Callable[[Any], Any]) -> Callable[[Func], Func]:
    """
    Decorator: apply functions to the named arguments of a function before it is called.

    Args:
        **maps: argument name -> function of the value. An argument that is not passed is left alone.

    Example:
        >>> @map_arg(gpus=lambda gpus: list(range(gpus)) if isinstance(gpus, int) else gpus)
        ... def train(gpus): ...                    # train(4), train([0, 1, 2, 3]), train(gpus=4)

    tensorpack: same.
    """

    def decorate(func: Func) -> Func:
        signature = inspect.signature(func)

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind_partial(*args, **kwargs)
            for name, function in maps.items():
                if name in bound.arguments:
                    bound.arguments[name] = function(bound.arguments[name])
            return func(*bound.args, **bound.kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def memoized(func: Func) -> Func:
    """
    Decorator: call a function once per set of (hashable) arguments, and remember the result.

    Note:
        Arguments and results stay alive as long as the function. For methods use `memoized_method`.

    tensorpack: same.
    """
    return functools.lru_cache(maxsize=None)(func)  # type: ignore[return-value]


def graph_memoized(func: Func) -> Func:
    """
    Decorator: like `memoized`, with one memory per default graph.

    The results die with their graph.

    tensorpack: same; there every graph stays alive.
    """
    name = _full_name(func)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        from ..compat import tfv1

        graph = tfv1.get_default_graph()
        if not hasattr(graph, "_tensorpack_lite_memoized"):
            # On the graph itself: a dictionary from graphs to results, even with weak keys, would keep each graph
            # alive through its results.
            graph._tensorpack_lite_memoized = {}
        results = graph._tensorpack_lite_memoized
        return _remember(results, (name, _call_key(args, kwargs)), func, args, kwargs)

    return wrapper  # type: ignore[return-value]


def memoized_method(func: Func) -> Func:
    """
    Decorator: call a method once per instance and set of (hashable) arguments, and remember the result.

    The results are kept on the instance, in `_MEMOIZED_CACHE`, and die with it.

    tensorpack: same; there calls that differ only in the value of a keyword are confused, and None is not remembered.
    """
    name = _full_name(func)

    @functools.wraps(func)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        results = self.__dict__.setdefault("_MEMOIZED_CACHE", {})
        return _remember(results, (name, _call_key(args, kwargs)), func, (self,) + args, kwargs)

    return wrapper  # type: ignore[return-value]


def memoized_ignoreargs(func: Func) -> Func:
    """
    Decorator: call a function once; its first result is the result forever, whatever the arguments.

    tensorpack: same.
    """
    results: dict[Hashable, Any] = {}

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _remember(results, "only", func, args, kwargs)

    return wrapper  # type: ignore[return-value]


def call_only_once(func: Func) -> Func:
    """
    Decorator: let a method, or the setter of a property, succeed only once on each instance.

    A first call that raises does not count: it may be repeated. A method of a subclass may call the decorated
    method of its base class.

    Raises:
        RuntimeError: at the second call.

    Example:
        >>> class Trainer:
        ...     @call_only_once
        ...     def initialize(self): ...

    tensorpack: same; there a first call that raises counts, and the second is an AssertionError.
    """
    name = _full_name(func)

    @functools.wraps(func)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        called = self.__dict__.setdefault("_CALL_ONLY_ONCE_CACHE", set())
        if name in called:
            raise RuntimeError(
                f"{func.__qualname__}: may be called only once on one {type(self).__name__}, "
                "and this was the second time. Make a new one."
            )
        called.add(name)  # before the call, so that it cannot call itself
        try:
            return func(self, *args, **kwargs)
        except BaseException:  # a call that failed, in whatever way, may be repeated
            called.discard(name)
            raise

    return wrapper  # type: ignore[return-value]


@memoized
def log_once(message: str, func: str = "info") -> None:
    """
    Log a message, unless this process has already logged it.

    Args:
        message: the text.
        func: which function of the logger, e.g. "warning".

    tensorpack: same.
    """
    getattr(logger, func)(message)


def shape2d(a: int | Sequence[int]) -> list[int]:
    """
    Make a pair of an integer or a pair.

    Args:
        a: an integer (NumPy's too), or a list or tuple of two.

    Returns:
        `[a, a]`, or `list(a)`.

    Raises:
        ValueError: a list or tuple of another length.
        RuntimeError: something else.

    tensorpack: same; there a NumPy integer is refused, and the wrong length is an AssertionError.
    """
    if isinstance(a, Integral):
        return [int(a), int(a)]
    if not isinstance(a, (list, tuple)):
        raise RuntimeError(f"shape2d: takes an integer or a list of two, got {type(a).__name__} {a!r}.")
    if len(a) != 2:
        raise ValueError(f"shape2d: takes an integer or a list of two, got {len(a)} values: {a!r}.")
    return list(a)


def shape4d(a: int | Sequence[int], data_format: str = "NHWC") -> list[int]:
    """
    Make the shape of a window over images, e.g. for `ksize` and `strides`.

    Args:
        a: as in `shape2d`: height and width.
        data_format: "NHWC" / "channels_last" or "NCHW" / "channels_first".

    Returns:
        `[1, h, w, 1]`, or `[1, 1, h, w]`.

    Raises:
        ValueError: an unknown `data_format`.

    tensorpack: same.
    """
    pair = shape2d(a)
    if get_data_format(data_format, keras_mode=False) == "NHWC":
        return [1] + pair + [1]
    return [1, 1] + pair


def get_data_format(data_format: str, keras_mode: bool = True) -> str:
    """
    Translate the name of a data format.

    Args:
        data_format: "NHWC", "NCHW", "channels_last" or "channels_first".
        keras_mode: True gives Keras's name ("channels_last", "channels_first"), False TensorFlow's ("NHWC", "NCHW").

    Raises:
        ValueError: another name.

    tensorpack: same; there an AssertionError.
    """
    for tensorflow_name, keras_name in _CHANNELS.items():
        if data_format in (tensorflow_name, keras_name):
            return keras_name if keras_mode else tensorflow_name
    raise ValueError(
        f"data_format: takes 'NHWC' ('channels_last') or 'NCHW' ('channels_first'), got {data_format!r}."
    )


def _full_name(func: Callable[..., Any]) -> str:
    """Name a function so that an instance which keeps the name can still be pickled."""
    return f"{func.__module__}.{func.__qualname__}"


def _call_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    return args, tuple(sorted(kwargs.items(), key=lambda item: item[0]))


def _remember(
    results: dict[Hashable, Any],
    key: Hashable,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if key not in results:
        results[key] = func(*args, **kwargs)
    return results[key]
