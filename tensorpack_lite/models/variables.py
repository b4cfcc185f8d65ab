"""Variables of layers: their holder, renaming, default initializers and shared constants."""

from __future__ import annotations

import math
from typing import Any, Callable, ContextManager, Mapping, Sequence

import numpy as np

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..compat.private import nothing_surrounds
from ..compat.variables import get_variable
from ..tfutils.precision import variable_dtype
from ..tfutils.tower.context import get_current_tower_context
from ..tfutils.varreplace import custom_getter_scope
from ..utils.argtools import graph_memoized


class VariableHolder:
    """
    The variables of a layer, as attributes of its output: `Conv2D("conv0", x, 32, 3).variables.W`.

    With custom getters, a variable may be a tensor: the holder has what `tf.get_variable` returned.

    Args:
        **kwargs: short name -> variable.

    Raises:
        ValueError: a name is set twice.
        AttributeError: a name does not exist. The error is also a KeyError, as in tensorpack.

    Example:
        >>> out = FullyConnected("fc", x, 10)
        >>> out.variables.W, out.variables.all()

    Note: only this tensor has the attribute; `out + 0` does not have it.
    """

    def __init__(self, **kwargs: tf.Variable) -> None:
        self._vars: dict[str, tf.Variable] = dict(kwargs)

    def all(self) -> list[tf.Variable]:
        """Return all variables in the order in which they were set."""
        return list(self._vars.values())

    def __setattr__(self, name: str, var: tf.Variable) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, var)
            return
        if name in self._vars:
            raise ValueError(f"VariableHolder: '{name}' is set already. Use another name.")
        self._vars[name] = var

    def __getattr__(self, name: str) -> tf.Variable:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._vars:
            known = ", ".join(self._vars) or "none"
            raise _NoSuchVariable(f"VariableHolder: no variable is called '{name}' (the variables are: {known}).")
        return self._vars[name]


class _NoSuchVariable(AttributeError, KeyError):
    """An AttributeError that scripts written for tensorpack catch as a KeyError."""

    __str__ = Exception.__str__


def rename_get_variable(mapping: Mapping[str, str]) -> ContextManager[None]:
    """
    Context manager and decorator: rename variables, by replacing the last part of their names.

    Args:
        mapping: last part of a name -> replacement, which may contain slashes.

    Example:
        >>> with rename_get_variable({"kernel": "W"}):
        ...     tf.get_variable("dense/kernel", [2, 2])         # its name is dense/W
    """

    def custom_getter(getter: Callable[..., tf.Variable], name: str, *args: object, **kwargs: object) -> tf.Variable:
        scope, slash, last = name.rpartition("/")
        return getter(scope + slash + mapping.get(last, last), *args, **kwargs)

    return custom_getter_scope(custom_getter)


def rename_tflayer_get_variable() -> ContextManager[None]:
    """
    Context manager and decorator: give variables of TensorFlow's layers the names that this library's layers use.

    `kernel` becomes `W`, `bias` becomes `b`, `moving_mean` becomes `mean/EMA`, and `moving_variance` becomes
    `variance/EMA`.

    Example:
        >>> with rename_tflayer_get_variable():
        ...     y = tf.layers.conv2d(x, 3, 3, name="conv0")     # conv0/W, conv0/b; TensorFlow up to 2.15
    """
    return rename_get_variable(
        {"kernel": "W", "bias": "b", "moving_mean": "mean/EMA", "moving_variance": "variance/EMA"}
    )


def create_kernel(
    shape: Sequence[int],
    inputs: tf.Tensor,
    initializer: Callable[..., tf.Tensor] | None,
    regularizer: Callable[[tf.Tensor], tf.Tensor] | None,
) -> tf.Variable:
    """Return the variable `W` of a layer, of the dtype for its inputs; an initializer of None means the default."""
    return get_variable(
        "W",
        shape,
        dtype=variable_dtype(inputs),
        initializer=initializer or default_kernel_initializer(),
        regularizer=regularizer,
    )


def default_kernel_initializer() -> Callable[..., tf.Tensor]:
    """
    Return the default initializer of weights: normal with standard deviation sqrt(2 / fan_in), not truncated.

    Source: He, Zhang, Ren, Sun 2015, "Delving deep into rectifiers", section 2.2.
    """
    return _he_normal


def _he_normal(shape: Sequence[int], dtype: tf.DType = tf.float32, partition_info: Any = None) -> tf.Tensor:
    """Like `tf.variance_scaling_initializer`, with half as many operations."""
    whole = shape if partition_info is None else partition_info.full_shape
    fan_in = max(1, int(np.prod(whole[:-1])))
    seed, seed2 = tf.get_seed(None)
    normal = tf.raw_ops.RandomStandardNormal(shape=tf.constant(shape, tf.int32), dtype=dtype, seed=seed, seed2=seed2)
    return normal * shared_constant(math.sqrt(2 / fan_in), dtype)


def same_constant(value: float) -> Callable[..., tf.Tensor]:
    """
    Return a constant initializer for the vectors of one layer, which creates one operation per shape and dtype.

    This saves hundreds of operations in a large model.

    Args:
        value: the value of each element.
    """
    constants: dict[Any, Any] = {}

    def initialize(shape: Sequence[int], dtype: tf.DType = tf.float32, partition_info: Any = None) -> tf.Tensor:
        key = (tf.get_default_graph(), tuple(shape), tf.as_dtype(dtype))
        if key not in constants:
            constants[key] = tf.constant(value, dtype, shape)
        return constants[key]

    return initialize


def shared_constant(value: float | list[float], dtype: tf.DType) -> tf.Tensor:
    """
    Return a constant that all layers of a tower share; inside a condition or a loop, a new constant.

    Args:
        value: a number, or a list of numbers.
        dtype: the dtype of the constant.
    """
    if not nothing_surrounds(tf.get_default_graph()):
        return tf.constant(value, dtype)
    tower = get_current_tower_context()
    values = tuple(value) if isinstance(value, list) else value
    return _constant_of_tower("" if tower is None else tower.name, values, dtype)


def is_variable(value: object) -> bool:
    """Return whether a value is a variable (reference or resource), and not a tensor from a custom getter."""
    return isinstance(value, (tf.Variable, tensorflow.Variable))


@graph_memoized
def _constant_of_tower(tower: str, value: float | tuple[float, ...], dtype: tf.DType) -> tf.Tensor:
    return tf.constant(value, dtype)
