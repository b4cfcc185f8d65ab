"""`tf.contrib.framework`: arg_scope and variables from tf_slim, and small functions on tensors."""

from __future__ import annotations

from typing import Any, Callable, Iterable

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__,
    sources=(
        "tf_slim.ops.arg_scope",
        "tf_slim.ops.variables",
        "tf_slim.ops.framework_ops",
        "tf",
        "tf.train",
        "tf.initializers",
        "tf2",
    ),
    inner={"nest": "tensorpack_lite.tf1.contrib._nest", "variables": "tf_slim.ops.variables"},
    same=("framework", "ops"),
)


def smart_constant_value(pred: Any) -> bool | None:
    """Return the value of a predicate as a bool, or None if the graph does not determine it."""
    if isinstance(pred, tf.Tensor):
        value = tf.get_static_value(pred)
        return None if value is None else bool(value)
    return bool(pred)


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Return `true_fn()` or `false_fn()` if `pred` is known, otherwise `tf.cond` of the three."""
    value = smart_constant_value(pred)
    if value is None:
        return tf.cond(pred, true_fn, false_fn, name=name)
    chosen = true_fn if value else false_fn
    if not callable(chosen):
        raise TypeError(f"smart_cond: expected a function for each branch, got {type(chosen).__name__}.")
    return chosen()


def with_same_shape(expected_tensor: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Return `tensor` with the static shape of `expected_tensor`; a mismatch at run time is an error."""
    return tf.ensure_shape(tensor, expected_tensor.shape)


def with_shape(expected_shape: Any, tensor: tf.Tensor) -> tf.Tensor:
    """Return `tensor` with a static shape; a mismatch at run time is an error."""
    return tf.ensure_shape(tensor, expected_shape)


def assert_scalar_int(tensor: Any, name: str | None = None) -> tf.Tensor:
    """
    Return a value as a tensor.

    Raises:
        ValueError: it is not a scalar of an integer type.
    """
    tensor = tf.convert_to_tensor(tensor, name=name)
    if not tensor.dtype.is_integer or tensor.shape.ndims != 0:
        raise ValueError(
            f"assert_scalar_int: expected an integer scalar, got {tensor.dtype.name} of shape {tensor.shape}."
        )
    return tensor


def reduce_sum_n(tensors: Iterable[tf.Tensor], name: str | None = None) -> tf.Tensor:
    """Return the sum of all elements of all tensors, as a scalar."""
    return tf.add_n([tf.reduce_sum(tensor) for tensor in tensors], name=name)


def get_placeholders(graph: tf.Graph) -> list[tf.Tensor]:
    """Return the outputs of all placeholders of a graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def zero_initializer(ref: tf.Variable, use_locking: bool = True, name: str = "zero_initializer") -> tf.Tensor:
    """Return an operation that sets a variable to zeros."""
    return tf.assign(ref, tf.zeros(ref.shape, ref.dtype.base_dtype), use_locking=use_locking, name=name)


def deprecated_args(date: str, instructions: str, *names: Any, **settings: Any) -> Callable[[Any], Any]:
    """Return a decorator that does nothing: the function is in a script that runs as it is."""
    return lambda function: function


deprecated_arg_values = deprecated_args
