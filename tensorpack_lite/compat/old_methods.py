"""Methods that variables had in TensorFlow 1 and no longer have."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

import tensorflow as _tensorflow

from . import TF_VERSION
from . import tfv1 as tf


def give_old_methods(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """
    Custom getter for `tf.variable_scope`, and creator for `tf.variable_creator_scope`: a resource variable has
    `initialized_value`, as in TensorFlow 1.

    TensorFlow 2 has this method only for ref variables; resource variables raise NotImplementedError without a message.
    """
    variable = getter(*args, **kwargs)
    if TF_VERSION >= (2, 0) and isinstance(variable, _tensorflow.Variable) and hasattr(variable, "handle"):
        variable.initialized_value = partial(_initialized_value, variable)
    return variable


def _initialized_value(variable: Any) -> tf.Tensor:
    """Return the value of a variable; its initial value before it is initialized."""
    with tf.init_scope():
        return tf.cond(
            tf.is_variable_initialized(variable),
            variable.read_value,
            lambda: tf.identity(variable.initial_value),
        )
