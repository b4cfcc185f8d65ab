"""Two spellings of one argument: tensorpack's first names (`nl`, `out_channel`) and those of TensorFlow's layers."""

from __future__ import annotations

import functools
from typing import Any, Callable, Mapping, Sequence

from ..compat import tfv1 as tf
from ..utils.argtools import get_data_format
from .checks import layer_title

__all__ = ["convert_to_tflayer_args", "get_activation"]

_COMMON_NAMES = {"nl": "activation", "W_init": "kernel_initializer", "b_init": "bias_initializer"}

_ACTIVATIONS = (
    "elu", "leaky_relu", "log_softmax", "relu", "relu6", "selu", "sigmoid", "softmax", "softplus", "softsign",
    "swish", "tanh",
)  # fmt: skip


def convert_to_tflayer_args(
    args_names: Sequence[str], name_mapping: Mapping[str, str]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Decorator: let a layer take old names of its arguments, and only some of them by position.

    Old names that every such layer knows: `nl` (for `activation`; the function is called with `name=None`), `W_init`
    (`kernel_initializer`), `b_init` (`bias_initializer`). `data_format` arrives as "channels_last" or "channels_first".

    Args:
        args_names: the arguments that may come by position after the inputs, in order. One by position wins over the
            same one by keyword or from argscope.
        name_mapping: old name -> new name, of this layer.

    Raises:
        TypeError: (when the layer is called) too many positional arguments; an old name and its new one together.
        ValueError: (when the layer is called) an unknown `data_format`.

    Example:
        >>> @convert_to_tflayer_args(args_names=["units"], name_mapping={"out_dim": "units"})
        ... def FullyConnected(inputs, units, activation=None): ...

    tensorpack: same; there wrong calls are assertions.
    """
    names = {**_COMMON_NAMES, **name_mapping}

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def layer(inputs: Any, *args: Any, **kwargs: Any) -> Any:
            arguments = _rename(func.__name__, kwargs, names)
            arguments.update(_name_positional(func.__name__, args, args_names))
            if "data_format" in arguments:
                arguments["data_format"] = get_data_format(arguments["data_format"])
            return func(inputs, **arguments)

        return layer

    return decorate


def get_activation(activation: Callable[[Any], Any] | str | None) -> Callable[[Any], Any]:
    """
    Find an activation function.

    Args:
        activation: a function of one tensor, which may create variables; or the name of one in `tf.nn`, e.g. "relu";
            None or "linear" for the identity.

    Raises:
        ValueError: an unknown name.
        TypeError: something that cannot be called.
    """
    if activation is None or activation == "linear":
        return lambda x: x
    if callable(activation):
        return activation
    if not isinstance(activation, str):
        raise TypeError(
            f"activation: takes a function of one tensor, a name, or None, got {type(activation).__name__}."
        )
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation: there is no '{activation}'. Names: linear, {', '.join(_ACTIVATIONS)}.")
    return getattr(tf.nn, activation)


def _rename(layer: str, arguments: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    renamed = {}
    for name, value in arguments.items():
        new = names.get(name, name)
        if new != name and new in arguments:
            raise TypeError(
                f"{layer_title(layer)}: '{name}' is the old name of '{new}', and both were given (some may come from "
                f"argscope). Keep '{new}'."
            )
        renamed[new] = _with_name(value) if name == "nl" else value
    return renamed


def _with_name(nonlinearity: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Call an old-style activation the way it expects: with a name."""
    if not callable(nonlinearity):
        return nonlinearity
    return lambda x, name=None: nonlinearity(x, name=name)


def _name_positional(layer: str, args: tuple, names: Sequence[str]) -> dict[str, Any]:
    if len(args) > len(names):
        known = ", ".join(["inputs", *names])
        raise TypeError(
            f"{layer_title(layer)}: takes {len(names) + 1} positional arguments after its name ({known}), got "
            f"{len(args) + 1}. Pass the others by keyword."
        )
    return dict(zip(names, args))
