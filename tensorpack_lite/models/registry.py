"""Registration of layers: a variable scope, defaults from argscope, and a log line with the shapes."""

from __future__ import annotations

import functools
import inspect
import threading
from contextlib import nullcontext
from typing import Any, Callable, Sequence, TypeVar

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..tfutils.argscope import get_arg_scope, mark_enabled
from ..tfutils.model_utils import get_shape_str
from ..tfutils.precision import in_float32_part, to_float32
from ..tfutils.tower.error_hints import explain_mistakes, explain_name_clash
from ..utils import logger
from ..utils.arguments import explain_argument
from ..utils.inspection import origin
from ..utils.naming import TOWER_PREFIX
from .variables import is_variable

T = TypeVar("T")


def layer_register(
    log_shape: bool = False, use_scope: bool | None = True
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """
    Turn a function `f(inputs, *args, **kwargs)` into a layer, called `f(name, inputs, *args, **kwargs)`.

    The layer runs inside `tf.variable_scope(name)`, and takes arguments that the call does not have from `argscope`.
    `LinearWrap` finds it under the name of the function.

    Args:
        log_shape: whether to log a line such as `'name': [?, 28, 28, 1] --> [?, 28, 28, 32]` the first time
            that the layer is built in this process. Later towers log nothing.
        use_scope: True: the layer needs a name. None: the name is optional. False: the layer takes no name; a
            given name is used, with a warning.

    Returns:
        A decorator. The layer has the attributes `use_scope`, `symbolic_function` (the function without name
        and argscope) and `__argscope_enabled__`.

    Raises:
        ValueError: the function is named `tf`, which LinearWrap reserves, or `log_shape` is True although the
            name is optional.
        TypeError: (when the layer is called) the name or the inputs are missing, or there is no argument of a given name.
        ValueError: (when the layer is called) the inputs are not a tensor, or a list or tuple of tensors.

    Example:
        >>> @layer_register()
        ... def Scale(x, init=1.0):
        ...     return x * tf.get_variable("scale", initializer=init)
        >>> y = Scale("scale0", x, init=2.0)            # creates the variable scale0/scale
    """
    if log_shape and use_scope is not True:
        raise ValueError(
            "layer_register: log_shape=True needs use_scope=True, because the log line starts with the name."
        )

    def decorate(func: Callable[..., T]) -> Callable[..., T]:
        signature = inspect.signature(func)
        parameters = signature.parameters.values()
        positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

        @functools.wraps(func)
        def layer(*args: object, **kwargs: object) -> T:
            ensure_graph_mode()
            name, inputs, following = _split_call(func.__name__, use_scope, args)
            arguments = dict(get_arg_scope()[func.__name__])
            for value in positional[1 : 1 + len(following)]:
                arguments.pop(value, None)
            arguments.update(kwargs)
            with nullcontext() if name is None else tf.variable_scope(name):
                if in_float32_part():
                    inputs = _map_tensors(to_float32, inputs)
                build = functools.partial(func, inputs, *following, **arguments)
                scope = tf.get_variable_scope().name
                kind = func.__name__
                with explain_mistakes(f"{kind} '{scope}'" if scope else kind), explain_name_clash(
                    kind, name or scope
                ), explain_argument(func, arguments, 1):
                    return _shape_log.build(scope, inputs, build) if log_shape else build()

        if origin(func.__module__) == "library":
            # AutoGraph converts what the body of `tf.map_fn` calls. For a layer of ours this takes seconds and changes nothing.
            layer = tf.autograph.experimental.do_not_convert(layer)
        layer.use_scope = use_scope  # type: ignore[attr-defined]
        layer.symbolic_function = func  # type: ignore[attr-defined]
        mark_enabled(layer)
        if use_scope is True:  # what editors show
            title = "scope" if "name" in signature.parameters else "name"
            first = inspect.Parameter(title, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="str")
            layer.__signature__ = signature.replace(parameters=[first, *parameters])  # type: ignore[attr-defined]
        register_alias(func.__name__, layer)
        return layer

    return decorate


def get_registered_layer(name: str) -> Callable[..., tf.Tensor] | None:
    """
    Return the layer with this name, or None.

    Raises:
        KeyError: several layers have this name.
    """
    found = _registry.layers.get(name, [])
    if len(found) > 1:
        places = ", ".join(layer.__module__ for layer in found)
        raise KeyError(
            f"get_registered_layer: {len(found)} layers are named '{name}' (in {places}). Call the function itself, or "
            "LinearWrap(x).apply(...)."
        )
    return found[0] if found else None


def register_alias(name: str, layer: Callable[..., tf.Tensor]) -> None:
    """
    Let `get_registered_layer` and LinearWrap find a layer under a second name. Argscope only knows the first name.

    Raises:
        ValueError: the name is `tf`.
    """
    if name == "tf":
        raise ValueError(
            "layer_register: a layer cannot be named 'tf', because LinearWrap(x).tf is TensorFlow. Rename it."
        )
    _registry.layers.setdefault(name, []).append(layer)


def disable_layer_logging() -> None:
    """Stop logging the shapes of layers, for the rest of this process."""
    _shape_log.enabled = False


class _Registry:
    """The layers of this process by name."""

    def __init__(self) -> None:
        self.layers: dict[str, list[Callable[..., Any]]] = {}


class _OpenLayer:
    """A layer in construction; `is_logged` after its inputs were logged, because a layer inside of it will be."""

    def __init__(self, name: str, inputs: object) -> None:
        self.name, self.inputs, self.is_logged = name, inputs, False


class _ShapeLog:
    """The layers that were logged in this process, and in each thread those in construction, innermost last."""

    def __init__(self) -> None:
        self.enabled = True
        self._names: set[str] = set()
        self._threads = threading.local()

    def build(self, scope_name: str, inputs: object, build: Callable[[], T]) -> T:
        """Call `build`, and log the shapes of the layer unless they were logged before."""
        name = TOWER_PREFIX.sub("", scope_name)
        if not self.enabled or name in self._names:
            return build()
        around = self._threads.__dict__.setdefault("layers", [])
        for depth, outer in enumerate(around):
            if not outer.is_logged:
                outer.is_logged = True
                _log(depth, f"'{outer.name}' input", _shapes(outer.inputs))
        layer = _OpenLayer(name, inputs)
        around.append(layer)
        try:
            outputs = build()
        finally:
            around.pop()
        if layer.is_logged:
            _log(len(around), f"'{name}' output", _shapes(outputs))
        else:
            _log(len(around), f"'{name}'", f"{_shapes(inputs)} --> {_shapes(outputs)}")
        self._names.add(name)
        return outputs


_registry = _Registry()
_shape_log = _ShapeLog()


def _shapes(tensors: object) -> str:
    """Return the shapes of a layer's inputs or outputs as text, and the types of those that are not tensors."""
    items = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    return ", ".join(get_shape_str(x) if hasattr(x, "shape") else type(x).__name__ for x in items)


def _map_tensors(
    function: Callable[[tf.Tensor], tf.Tensor], inputs: tf.Tensor | Sequence[tf.Tensor]
) -> tf.Tensor | list[tf.Tensor]:
    return [function(x) for x in inputs] if isinstance(inputs, (list, tuple)) else function(inputs)


def _log(depth: int, title: str, shapes: str) -> None:
    logger.info("%s%-12s: %s", "  " * depth, title, shapes)


def _split_call(
    layer: str, use_scope: bool | None, args: tuple
) -> tuple[str | None, tf.Tensor | Sequence[tf.Tensor], tuple]:
    """Split the positional arguments into name (or None), inputs and the rest."""
    name = args[0] if args and isinstance(args[0], str) else None
    following = args if name is None else args[1:]
    if use_scope is True and name is None:
        got = type(args[0]).__name__ if args else "nothing"
        raise TypeError(
            f"{layer}: the name is missing (expected a str as first argument, got {got}). Write "
            f"{layer}('{layer.lower()}0', x, ...)."
        )
    if use_scope is False and name is not None:
        logger.warning(f"{layer}: the layer takes no name. '{name}' is used as its variable scope.")
    if not following:
        raise TypeError(
            f"{layer}: the inputs are missing. Pass them by position: {layer}({'' if name is None else 'name, '}x, ...)."
        )
    inputs = following[0]
    first = inputs[0] if isinstance(inputs, (list, tuple)) and inputs else inputs
    if not isinstance(first, tf.Tensor) and not is_variable(first):
        who = layer if name is None else f"{layer} '{name}'"
        raise ValueError(
            f"{who}: the inputs have the wrong type (expected a tensor, or a list or tuple of tensors, got "
            f"{type(first).__name__}). Use tf.convert_to_tensor(x)."
        )
    return name, inputs, following[1:]
