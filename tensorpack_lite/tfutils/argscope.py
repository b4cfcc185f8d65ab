"""Default arguments for layers, set for a block of code."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import defaultdict
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, Callable, Iterator

from ..utils import logger
from .model_utils import get_shape_str
from .tower.context import get_current_tower_context

__all__ = ["argscope", "enable_argscope_for_function", "enable_argscope_for_module", "get_arg_scope"]


class _Stack(threading.local):
    """The scopes open in this thread, innermost last: one of the library's five ambient states."""

    def __init__(self) -> None:
        self.scopes: list[defaultdict] = []


_stack = _Stack()


@contextmanager
def argscope(layers: Any, **kwargs: Any) -> Iterator[None]:
    """
    Give layers other default arguments inside the context.

    Inner scopes win over outer ones, and arguments of the call itself over every scope.

    Args:
        layers: a layer, or a list or tuple of layers: registered ones, and what `enable_argscope_for_function` returned.
        **kwargs: arguments of the layers, and their values.

    Raises:
        TypeError: something that is no function.
        ValueError: a function that does not take part in argscope.

    Example:
        >>> with argscope([Conv2D, FullyConnected], activation=tf.nn.relu):
        ...     x = Conv2D("conv0", image, 32, 3)

    Note: each thread has its own scopes.

    tensorpack: same; there values are deep-copied, a tuple is refused, and an exception leaves the scope open.
    """
    layers = list(layers) if isinstance(layers, (list, tuple)) else [layers]
    for layer in layers:
        _check_enabled(layer)
    scope = _copy(get_arg_scope())
    for layer in layers:
        scope[layer.__name__].update(kwargs)
    _stack.scopes.append(scope)
    try:
        yield
    finally:
        _stack.scopes.pop()


def get_arg_scope() -> defaultdict:
    """
    Get the default arguments in effect.

    Returns:
        `{layer name: {argument: value}}`, a defaultdict of dictionaries; empty outside of every `argscope`.

    tensorpack: same.
    """
    return _stack.scopes[-1] if _stack.scopes else defaultdict(dict)


def enable_argscope_for_function(func: Callable[..., Any], log_shape: bool = True) -> Callable[..., Any]:
    """
    Let a function take part in `argscope`, under its `__name__`.

    Args:
        func: any function; its first argument should be a tensor if shapes are to be logged.
        log_shape: log the shapes of the first input and output of each call, except in towers that repeat the first one.

    Returns:
        A function with the same signature.

    Raises:
        TypeError: `func` cannot be called.

    tensorpack: same; there a call outside of a tower fails when shapes are logged.
    """
    if not callable(func):
        raise TypeError(f"enable_argscope_for_function: takes a function, got {type(func).__name__}.")
    try:
        signature: inspect.Signature | None = inspect.signature(func)
    except ValueError:  # written in C, without a signature
        signature = None

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        arguments = dict(get_arg_scope()[func.__name__])
        for given in _given_by_position(signature, args):
            arguments.pop(given, None)
        arguments.update(kwargs)
        outputs = func(*args, **arguments)
        if log_shape:
            _log_shapes(arguments.get("name", func.__name__), args, outputs)
        return outputs

    wrapper.__argscope_enabled__ = True  # type: ignore[attr-defined]
    return wrapper


def enable_argscope_for_module(module: ModuleType, log_shape: bool = True) -> None:
    """
    Let every plain function of a module take part in `argscope`; the module's functions are replaced in place.

    Args:
        module: e.g. a module with functions `def dense(inputs, units, ...)`.
        log_shape: as in `enable_argscope_for_function`.

    Raises:
        TypeError: not a module.

    Note: this changes the module for the whole process, which is what it is for. `tf.layers` exists up to TensorFlow
    2.15 only.

    tensorpack: same.
    """
    if not isinstance(module, ModuleType):
        raise TypeError(f"enable_argscope_for_module: takes a module, got {type(module).__name__}.")
    functions = {name: value for name, value in vars(module).items() if isinstance(value, FunctionType)}
    for name, function in functions.items():
        if not _is_enabled(function):
            setattr(module, name, enable_argscope_for_function(function, log_shape=log_shape))


def _is_enabled(layer: Any) -> bool:
    return getattr(layer, "__argscope_enabled__", False) is True


def _check_enabled(layer: Any) -> None:
    if not callable(layer):
        raise TypeError(f"argscope: takes a layer or a list of layers, got {type(layer).__name__}.")
    if not _is_enabled(layer):
        name = getattr(layer, "__name__", repr(layer))
        raise ValueError(
            f"argscope: '{name}' takes no arguments from argscope. Register it with layer_register, or wrap it with "
            "enable_argscope_for_function."
        )


def _copy(scope: defaultdict) -> defaultdict:
    """Copy both levels of dictionaries, and share the values."""
    copied: defaultdict = defaultdict(dict)
    for name, arguments in scope.items():
        copied[name] = dict(arguments)
    return copied


def _given_by_position(signature: inspect.Signature | None, args: tuple) -> list[str]:
    """Name the parameters that positional arguments fill; they beat the scope like keywords do."""
    if signature is None:
        return []
    return [
        parameter.name
        for parameter, _ in zip(signature.parameters.values(), args)
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]


def _log_shapes(name: str, inputs: tuple, outputs: Any) -> None:
    context = get_current_tower_context()
    if context is not None and "tower" in context.name.lower() and not context.is_main_training_tower:
        return
    first_input = inputs[0] if inputs else None
    first_output = outputs[0] if isinstance(outputs, tuple) and outputs else outputs
    if hasattr(first_input, "shape") and hasattr(first_output, "shape"):
        logger.info("%-12s: %s --> %s", f"'{name}'", get_shape_str(first_input), get_shape_str(first_output))
