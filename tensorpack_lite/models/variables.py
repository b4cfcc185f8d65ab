"""Variables of layers: their holder on a layer's output, other names for them, their default initial value."""

from __future__ import annotations

import math
from typing import Any, Callable, ContextManager, Mapping, Sequence

import numpy as np

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..compat.private import nothing_surrounds
from ..tfutils.tower.context import get_current_tower_context
from ..tfutils.varreplace import custom_getter_scope
from ..utils.argtools import graph_memoized

__all__ = [
    "VariableHolder",
    "default_kernel_initializer",
    "is_variable",
    "rename_get_variable",
    "rename_tflayer_get_variable",
    "same_constant",
    "shared_constant",
]


class VariableHolder:
    """
    The variables of a layer, as attributes of its output: `Conv2D("conv0", x, 32, 3).variables.W`.

    Each is what `tf.get_variable` returned: with custom getters that may be a tensor.

    Args:
        **kwargs: short name -> variable.

    Raises:
        ValueError: a name is set a second time.
        AttributeError: a name that does not exist; it is also a KeyError.

    Example:
        >>> out = FullyConnected("fc", x, 10)
        >>> out.variables.W, out.variables.all()

    Note: they belong to that one tensor: `out + 0` does not have them.

    tensorpack: same; there a second value is an assertion, and a missing one only a KeyError.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._vars: dict[str, Any] = {}
        for name, var in kwargs.items():
            self.__setattr__(name, var)

    def all(self) -> list[Any]:
        """Get all of them, in the order in which they were set."""
        return list(self._vars.values())

    def __setattr__(self, name: str, var: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, var)
            return
        if name in self._vars:
            raise ValueError(f"VariableHolder: '{name}' is set already. Use another name.")
        self._vars[name] = var

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._vars:
            known = ", ".join(self._vars) or "none"
            raise _NoSuchVariable(f"VariableHolder: there is no '{name}'. The variables are: {known}.")
        return self._vars[name]


class _NoSuchVariable(AttributeError, KeyError):
    """Raised for an attribute, and caught as a KeyError by scripts written for tensorpack."""

    __str__ = Exception.__str__


def rename_get_variable(mapping: Mapping[str, str]) -> ContextManager[None]:
    """
    Give variables other names inside the context: the last part of a name is replaced.

    Args:
        mapping: last part of the name asked for -> what it becomes; it may contain slashes.

    Example:
        >>> with rename_get_variable({"kernel": "W"}):
        ...     tf.get_variable("dense/kernel", [2, 2])         # is named dense/W

    tensorpack: same.
    """

    def custom_getter(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        scope, slash, last = name.rpartition("/")
        return getter(scope + slash + mapping.get(last, last), *args, **kwargs)

    return custom_getter_scope(custom_getter)


def rename_tflayer_get_variable() -> ContextManager[None]:
    """
    Give the variables of TensorFlow's layers the names of this library's layers inside the context.

    `kernel` becomes `W`, `bias` `b`, `moving_mean` `mean/EMA`, `moving_variance` `variance/EMA`.

    Example:
        >>> with rename_tflayer_get_variable():
        ...     y = tf.layers.conv2d(x, 3, 3, name="conv0")     # conv0/W, conv0/b; TensorFlow up to 2.15

    tensorpack: same.
    """
    return rename_get_variable(
        {"kernel": "W", "bias": "b", "moving_mean": "mean/EMA", "moving_variance": "variance/EMA"}
    )


def default_kernel_initializer() -> Any:
    """
    Get the initializer of weights: normal with standard deviation sqrt(2 / fan_in), not truncated.

    Source: He, Zhang, Ren, Sun 2015, "Delving deep into rectifiers", section 2.2.
    """
    return _he_normal


def _he_normal(shape: Sequence[int], dtype: Any = tf.float32, partition_info: Any = None) -> Any:
    """As `tf.variance_scaling_initializer`, with half of its operations."""
    whole = shape if partition_info is None else partition_info.full_shape
    fan_in = max(1, int(np.prod(whole[:-1])))
    seed, seed2 = tf.get_seed(None)
    normal = tf.raw_ops.RandomStandardNormal(
        shape=tf.constant(shape, tf.int32), dtype=dtype, seed=seed, seed2=seed2
    )
    return normal * shared_constant(math.sqrt(2 / fan_in), dtype)


def same_constant(value: float) -> Callable[..., Any]:
    """
    Make an initializer for the vectors of one layer: all of one shape begin with the same operation.

    In a model of many layers that are hundreds of operations less.

    Args:
        value: of each element.
    """
    constants: dict[Any, Any] = {}

    def initialize(shape: Sequence[int], dtype: Any = tf.float32, partition_info: Any = None) -> Any:
        key = (tf.get_default_graph(), tuple(shape), tf.as_dtype(dtype))
        if key not in constants:
            constants[key] = tf.constant(value, dtype, shape)
        return constants[key]

    return initialize


def shared_constant(value: Any, dtype: Any) -> Any:
    """
    Give a constant: one for all layers of a tower that need it, but a new one inside a condition or a loop.

    Args:
        value: a number, or a list of them.
        dtype: of the constant.
    """
    if not nothing_surrounds(tf.get_default_graph()):
        return tf.constant(value, dtype)
    tower = get_current_tower_context()
    values = tuple(value) if isinstance(value, list) else value
    return _constant_of_tower("" if tower is None else tower.name, values, dtype)


def is_variable(value: Any) -> bool:
    """Tell a variable, reference or resource, from a tensor that a custom getter put in its place."""
    return isinstance(value, (tf.Variable, tensorflow.Variable))


@graph_memoized
def _constant_of_tower(tower: str, value: Any, dtype: Any) -> Any:
    return tf.constant(value, dtype)
