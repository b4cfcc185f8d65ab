"""Old and new names of arguments: tensorpack's first names (`nl`, `out_channel`), and those of TensorFlow's layers."""

from __future__ import annotations

import functools
from typing import Any, Callable, Mapping, Sequence, TypeVar

from ..compat import tfv1 as tf
from ..utils.argtools import get_data_format
from ..utils.checks import check_callable, check_choice
from .checks import layer_title

T = TypeVar("T")

_COMMON_NAMES = {"nl": "activation", "W_init": "kernel_initializer", "b_init": "bias_initializer"}

_ACTIVATIONS = (
    "elu", "leaky_relu", "log_softmax", "relu", "relu6", "selu", "sigmoid", "softmax", "softplus", "softsign",
    "swish", "tanh",
)  # fmt: skip


def convert_to_tflayer_args(
    args_names: Sequence[str], name_mapping: Mapping[str, str]
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """
    Decorator: accept old names of a layer's arguments, and only some arguments by position.

    All such layers accept `nl` (for `activation`, a function that is called with `name=None`), `W_init` (for
    `kernel_initializer`) and `b_init` (for `bias_initializer`). The layer receives `data_format` as "channels_last" or
    "channels_first".

    Args:
        args_names: the positional arguments after the inputs, in order. A positional argument takes
            precedence over the same argument by keyword or from argscope.
        name_mapping: old name -> new name, for this layer.

    Raises:
        TypeError: (when the layer is called) there are too many positional arguments, or an old name and its
            new name are combined.
        ValueError: (when the layer is called) `data_format` is unknown.

    Example:
        >>> @convert_to_tflayer_args(args_names=["units"], name_mapping={"out_dim": "units"})
        ... def FullyConnected(inputs, units, activation=None): ...
    """
    names = {**_COMMON_NAMES, **name_mapping}

    def decorate(func: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(func)
        def layer(inputs: tf.Tensor, *args: object, **kwargs: Any) -> T:
            arguments = _rename(func.__name__, kwargs, names)
            arguments.update(_name_positional(func.__name__, args, args_names))
            if "data_format" in arguments:
                arguments["data_format"] = get_data_format(arguments["data_format"])
            return func(inputs, **arguments)

        layer.old_argument_names = tuple(names)  # type: ignore[attr-defined]  # for argscope
        return layer

    return decorate


def get_activation(
    activation: Callable[[tf.Tensor], tf.Tensor] | str | None,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """
    Return an activation function.

    Args:
        activation: a function of one tensor, which may create variables; the name of a function in `tf.nn`,
            e.g. "relu"; or None or "linear" for the identity.

    Raises:
        ValueError: the name is unknown.
        TypeError: `activation` is neither a function nor a name.
    """
    if activation is None or activation == "linear":
        return lambda x: x
    if isinstance(activation, str):
        return getattr(tf.nn, check_choice("activation", activation, ("linear", *_ACTIVATIONS)))
    return check_callable("activation", activation, "a function of one tensor, a name or None")


def _rename(layer: str, arguments: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    renamed = {}
    for name, value in arguments.items():
        new = names.get(name, name)
        if new != name and new in arguments:
            raise TypeError(
                f"{layer_title(layer)}: '{name}' and '{new}' are the same argument (one may come from argscope). Keep '{new}'."
            )
        renamed[new] = _with_name(value) if name == "nl" else value
    return renamed


def _with_name(nonlinearity: object) -> object:
    """Call an old-style activation with a name, as it expects."""
    if not callable(nonlinearity):
        return nonlinearity
    return lambda x, name=None: nonlinearity(x, name=name)


def _name_positional(layer: str, args: tuple, names: Sequence[str]) -> dict[str, Any]:
    if len(args) > len(names):
        known = ", ".join(["inputs", *names])
        raise TypeError(
            f"{layer_title(layer)}: too many positional arguments after the name (expected {len(names) + 1}: {known}, got "
            f"{len(args) + 1}). Pass the others by keyword."
        )
    return dict(zip(names, args))
