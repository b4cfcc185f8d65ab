"""Default arguments for layers, set for a block of code."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import defaultdict
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Callable, Iterator, Sequence, TypeVar

from ..compat.replacement import replace
from ..utils import logger
from ..utils.arguments import describe_unknown
from ..utils.checks import check_callable, check_type
from .model_utils import get_shape_str
from .tower.context import get_current_tower_context

T = TypeVar("T")

_PACKAGE = f"{__name__.split('.')[0]}."


class _OpenScopes(threading.local):
    """The scopes open in this thread, innermost last."""

    def __init__(self) -> None:
        self.scopes: list[defaultdict] = []


_stack = _OpenScopes()


@contextmanager
def argscope(layers: Callable[..., object] | list[Callable[..., object]], **kwargs: object) -> Iterator[None]:
    """
    Override the default arguments of layers inside the context.

    Inner scopes override outer scopes, and arguments of a call override all scopes. Each thread has separate scopes.

    Args:
        layers: a layer or a list of layers: registered layers, or functions from `enable_argscope_for_function`.
        **kwargs: arguments of the layers, and their values.

    Raises:
        TypeError: a layer is not a function, or none of the layers has an argument of a given name. (An argument that only
            some of them have is an error when one of the others is called.)
        ValueError: a function does not support argscope.

    Example:
        >>> with argscope([Conv2D, FullyConnected], activation=tf.nn.relu):
        ...     x = Conv2D("conv0", image, 32, 3)
    """
    layers = list(layers) if isinstance(layers, (list, tuple)) else [layers]
    scope: defaultdict = defaultdict(dict)
    for name, arguments in get_arg_scope().items():
        scope[name] = dict(arguments)
    for layer in layers:
        check_callable("argscope: layers", layer, "a layer or a list of layers")
        if not _is_enabled(layer):
            raise ValueError(
                f"argscope: '{getattr(layer, '__name__', layer)}' does not support argscope. Register it with "
                "layer_register, or wrap it with enable_argscope_for_function."
            )
        scope[layer.__name__].update(kwargs)
    _check_arguments(layers, list(kwargs))
    _stack.scopes.append(scope)
    try:
        yield
    finally:
        _stack.scopes.pop()


def _check_arguments(layers: Sequence[Callable[..., object]], names: Sequence[str]) -> None:
    for name in names:
        if layers and not any(_may_accept(layer, name) for layer in layers):
            known = list(inspect.signature(layers[0]).parameters)
            raise TypeError(f"argscope of {layers[0].__name__}: {describe_unknown(name, known)}")


def _may_accept(layer: Callable[..., object], name: str) -> bool:
    """Return False if a layer of this library has no argument of this name, old names included."""
    is_own = str(getattr(layer, "__module__", "")).startswith(_PACKAGE)
    if not is_own or name in getattr(layer, "old_argument_names", ()):
        return True
    parameters = inspect.signature(layer).parameters
    return name in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def get_arg_scope() -> defaultdict:
    """
    Return the default arguments in effect.

    Returns:
        `{layer name: {argument: value}}`, a defaultdict of dictionaries. It is empty outside of all `argscope`s.
    """
    return _stack.scopes[-1] if _stack.scopes else defaultdict(dict)


def enable_argscope_for_function(func: Callable[..., T], log_shape: bool = True) -> Callable[..., T]:
    """
    Make a function support `argscope`, under its `__name__`.

    Args:
        func: any function. Shapes are logged only if its first argument and its first output are tensors.
        log_shape: log the shapes of the first input and output of each call, except in towers that repeat the
            first one.

    Returns:
        A function with the same signature.

    Raises:
        TypeError: `func` is not callable.
    """
    check_callable("enable_argscope_for_function: func", func)
    try:
        parameters = list(inspect.signature(func).parameters.values())
    except ValueError:  # a C function without a signature
        parameters = []

    @functools.wraps(func)
    def wrapper(*args: object, **kwargs: object) -> T:
        arguments = dict(get_arg_scope()[func.__name__])
        for parameter in parameters[: len(args)]:  # they override the scope like keywords
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                arguments.pop(parameter.name, None)
        arguments.update(kwargs)
        outputs = func(*args, **arguments)
        if log_shape:
            _log_shapes(arguments.get("name", func.__name__), args, outputs)
        return outputs

    mark_enabled(wrapper)
    return wrapper


def enable_argscope_for_module(module: ModuleType, log_shape: bool = True) -> None:
    """
    Make all plain functions of a module support `argscope`, by replacing them in the module.

    This changes the module for the whole process. Classes are not replaced.

    Args:
        module: a module with functions such as `def dense(inputs, units, ...)`. It may be one that TensorFlow
            loads on first use, such as `tf.layers`, which exists up to TensorFlow 2.15, and later with
            `tf_keras` and `TF_USE_LEGACY_KERAS=1`.
        log_shape: as in `enable_argscope_for_function`.

    Raises:
        TypeError: `module` is not a module.
    """
    check_type("enable_argscope_for_module: module", module, ModuleType, "a module")
    # not vars(module), which is nearly empty in a module that is loaded on first use
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if not _is_enabled(function):
            replace(module, name, enable_argscope_for_function(function, log_shape=log_shape))


def mark_enabled(layer: Any) -> None:
    """Give a function the mark of those that support `argscope`, which scripts and tensorpack read."""
    layer.__argscope_enabled__ = True


def _is_enabled(layer: object) -> bool:
    return getattr(layer, "__argscope_enabled__", False) is True


def _log_shapes(name: str, inputs: tuple, outputs: object) -> None:
    context = get_current_tower_context()
    if context is not None and "tower" in context.name.lower() and not context.is_main_training_tower:
        return
    first_input = inputs[0] if inputs else None
    first_output = outputs[0] if isinstance(outputs, tuple) and outputs else outputs
    if hasattr(first_input, "shape") and hasattr(first_output, "shape"):
        logger.info("%-12s: %s --> %s", f"'{name}'", get_shape_str(first_input), get_shape_str(first_output))
