"""What makes a function a layer: a name that is its variable scope, defaults from argscope, a line in the log."""

from __future__ import annotations

import functools
import inspect
import re
import threading
from contextlib import contextmanager, nullcontext
from typing import Any, Callable, Iterator

from ..compat import ensure_graph_mode, tensorflow
from ..compat import tfv1 as tf
from ..tfutils.argscope import get_arg_scope
from ..tfutils.model_utils import get_shape_str
from ..utils import logger

__all__ = ["disable_layer_logging", "get_registered_layer", "layer_register", "register_alias"]


def layer_register(
    log_shape: bool = False, use_scope: bool | None = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Decorator: make a function `f(inputs, *args, **kwargs)` a layer that is called `f(name, inputs, *args, **kwargs)`.

    The layer runs inside `tf.variable_scope(name)`, takes missing arguments from `argscope` (those of the call win,
    by keyword or by position), and is known to `LinearWrap` under the function's name.

    Args:
        log_shape: log `'name': [?, 28, 28, 1] --> [?, 28, 28, 32]` when the layer is built for the first time in this
            process; towers that repeat it are quiet.
        use_scope: True: the layer must get a name. None: it may get one. False: it should not; a name is used all the
            same, with a warning.

    Returns:
        A decorator. The layer has the attributes `use_scope` and `__argscope_enabled__`.

    Raises:
        ValueError: the function is called `tf` (LinearWrap needs the name), or shapes are to be logged of a layer
            that may have no name.
        TypeError: (when the layer is called) no name although it needs one, no inputs.
        ValueError: (when the layer is called) the inputs are not a tensor or a list or tuple of tensors.

    Example:
        >>> @layer_register()
        ... def Scale(x, init=1.0):
        ...     return x * tf.get_variable("scale", initializer=init)
        >>> y = Scale("scale0", x, init=2.0)            # makes the variable scale0/scale

    tensorpack: same; there wrong calls are assertions or an IndexError, a positional argument does not win over
    argscope, and a contradiction in the arguments shows at the first call.
    """
    if log_shape and use_scope is not True:
        raise ValueError(
            "layer_register: log_shape=True needs use_scope=True: a line in the log begins with a name."
        )

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        positional = _positional_names(func)

        @functools.wraps(func)
        def layer(*args: Any, **kwargs: Any) -> Any:
            ensure_graph_mode()
            name, inputs, rest = _split_call(func.__name__, use_scope, args)
            arguments = dict(get_arg_scope()[func.__name__])
            for given in positional[1 : 1 + len(rest)]:
                arguments.pop(given, None)
            arguments.update(kwargs)
            with nullcontext() if name is None else tf.variable_scope(name):
                if not log_shape:
                    return func(inputs, *rest, **arguments)
                with _shape_log.layer(tf.get_variable_scope().name, inputs) as entry:
                    entry.outputs = func(inputs, *rest, **arguments)
                return entry.outputs

        layer.use_scope = use_scope  # type: ignore[attr-defined]
        layer.__argscope_enabled__ = True  # type: ignore[attr-defined]
        _registry.add(func.__name__, layer)
        return layer

    return decorate


def get_registered_layer(name: str) -> Callable[..., Any] | None:
    """
    Find a layer by its name.

    Returns:
        The layer, or None if no layer has this name.

    Raises:
        KeyError: two functions of this name were registered, so that the name alone does not tell which.

    tensorpack: same.
    """
    return _registry.find(name)


def register_alias(name: str, layer: Callable[..., Any]) -> None:
    """
    Let `get_registered_layer` and LinearWrap find a layer under a second name; in argscope it keeps its own.

    Raises:
        ValueError: the name `tf`.
    """
    _registry.add(name, layer)


def disable_layer_logging() -> None:
    """
    Log no more shapes of layers in this process.

    tensorpack: same.
    """
    _shape_log.enabled = False


class _Registry:
    """Layers by name: one of the library's five ambient states."""

    def __init__(self) -> None:
        self._layers: dict[str, list[Callable[..., Any]]] = {}

    def add(self, name: str, layer: Callable[..., Any]) -> None:
        if name == "tf":
            raise ValueError("layer_register: a layer cannot be called 'tf': LinearWrap(x).tf is TensorFlow.")
        self._layers.setdefault(name, []).append(layer)

    def find(self, name: str) -> Callable[..., Any] | None:
        found = self._layers.get(name, [])
        if len(found) > 1:
            places = ", ".join(layer.__module__ for layer in found)
            raise KeyError(
                f"{len(found)} layers are registered as '{name}' (in {places}). Call the one you mean as a function, "
                "or with LinearWrap(x).apply(...)."
            )
        return found[0] if found else None


class _LogEntry:
    """A layer being built whose shapes will be logged; `opened` once a layer inside of it had to be shown."""

    def __init__(self, name: str, inputs: Any) -> None:
        self.name = name
        self.inputs = inputs
        self.outputs: Any = None
        self.opened = False


class _OpenEntries(threading.local):
    """The layers being built in this thread, innermost last."""

    def __init__(self) -> None:
        self.entries: list[_LogEntry] = []


class _ShapeLog:
    """Which layers were logged in this process, and which are being built; part of the registry."""

    def __init__(self) -> None:
        self.enabled = True
        self._names: set[str] = set()
        self._threads = _OpenEntries()

    @property
    def _open(self) -> list[_LogEntry]:
        return self._threads.entries

    @contextmanager
    def layer(self, scope_name: str, inputs: Any) -> Iterator[_LogEntry]:
        name = re.sub(r"tower\d+/", "", scope_name)
        entry = _LogEntry(name, inputs)
        if not self.enabled or name in self._names:
            yield entry
            return
        self._show_outer_layers()
        self._open.append(entry)
        try:
            yield entry
            self._show(entry)
            self._names.add(name)
        finally:
            self._open.pop()

    def _show_outer_layers(self) -> None:
        for depth, outer in enumerate(self._open):
            if not outer.opened:
                outer.opened = True
                logger.info("%s%-12s: %s", "  " * depth, f"'{outer.name}' input", _shapes(outer.inputs))

    def _show(self, entry: _LogEntry) -> None:
        indent = "  " * (len(self._open) - 1)
        if entry.opened:
            logger.info("%s%-12s: %s", indent, f"'{entry.name}' output", _shapes(entry.outputs))
        else:
            arrow = f"{_shapes(entry.inputs)} --> {_shapes(entry.outputs)}"
            logger.info("%s%-12s: %s", indent, f"'{entry.name}'", arrow)


_registry = _Registry()
_shape_log = _ShapeLog()


def _shapes(tensors: Any) -> str:
    """Write the shapes of what a layer took or returned, which need not be tensors."""
    items = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    return ", ".join(get_shape_str(x) if hasattr(x, "shape") else type(x).__name__ for x in items)


def _positional_names(func: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(func).parameters.values() if p.kind in kinds]


def _split_call(layer: str, use_scope: bool | None, args: tuple) -> tuple[str | None, Any, tuple]:
    """Take apart (name?, inputs, *rest)."""
    name = args[0] if args and isinstance(args[0], str) else None
    rest = args if name is None else args[1:]
    if use_scope is True and name is None:
        got = type(args[0]).__name__ if args else "nothing"
        raise TypeError(
            f"{layer}: its first argument is a name, got {got}. Write {layer}('{layer.lower()}0', x, ...)."
        )
    if use_scope is False and name is not None:
        logger.warning(f"{layer}: takes no name, got '{name}'. It is used as a variable scope all the same.")
    if not rest:
        raise TypeError(
            f"{layer}: got no inputs. They come by position: {layer}({'' if name is None else 'name, '}x, ...)."
        )
    _check_inputs(layer if name is None else f"{layer} '{name}'", rest[0])
    return name, rest[0], rest[1:]


def _check_inputs(who: str, inputs: Any) -> None:
    first = inputs[0] if isinstance(inputs, (list, tuple)) and inputs else inputs
    if not isinstance(first, (tf.Tensor, tf.Variable, tensorflow.Variable)):
        raise ValueError(
            f"{who}: takes a tensor, or a list or tuple of tensors, got {type(first).__name__}. "
            "Convert it with tf.convert_to_tensor(x)."
        )
