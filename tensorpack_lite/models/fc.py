"""The fully connected layer."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tfv1 as tf
from ..tfutils.reads import shared_read
from .arguments import convert_to_tflayer_args
from .checks import layer_title
from .outputs import bias_and_activate
from .registry import layer_register
from .variables import default_kernel_initializer

__all__ = ["FullyConnected", "batch_flatten"]


def batch_flatten(x: Any) -> Any:
    """
    Make a matrix of a batch: all axes but the first become one.

    Args:
        x: [N, ...].

    Returns:
        [N, D], row by row in the order of memory; D is known statically if all sizes but N are.

    tensorpack: same.
    """
    size = tf.TensorShape(x.shape[1:]).num_elements()
    if size is not None:
        return tf.reshape(x, [-1, size])
    return tf.reshape(x, tf.stack([tf.shape(x)[0], -1]))


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=["units"], name_mapping={"out_dim": "units"})
def FullyConnected(
    inputs: Any,
    units: int,
    activation: Callable[[Any], Any] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
) -> Any:
    """
    Multiply each datapoint with a matrix, called `FullyConnected(name, inputs, units, ...)`.

    y = activation(x W + b), with the inputs flattened to [N, D] first.

    Shapes: [N, ...] -> [N, units].

    Args:
        inputs: [N, ...] of any floating dtype; the product D of all sizes but N must be known. Variables have its dtype.
        units: the number of outputs of a datapoint.
        activation, use_bias, kernel_initializer, bias_initializer: as in Conv2D.
        kernel_regularizer, bias_regularizer, activity_regularizer: as in Conv2D.

    Returns:
        A tensor named `<name>/output`, with `.variables.W` and `.variables.b`.

    Raises:
        ValueError: D is unknown.

    Variables: `W` [D, units] and `b` [units], trained.

    Example:
        >>> logits = FullyConnected("linear", x, 10)

    tensorpack: same. Old names of arguments: out_dim, nl, W_init, b_init.
    """
    inputs = tf.convert_to_tensor(inputs)
    matrix = batch_flatten(inputs)
    size = matrix.shape.as_list()[1]
    if size is None:
        raise ValueError(
            f"{layer_title('FullyConnected')}: input has shape {inputs.shape}, of which only the first size may be unknown. "
            "Use x.set_shape(...)."
        )
    kernel = tf.get_variable(
        "W",
        [size, units],
        dtype=inputs.dtype.base_dtype,
        initializer=kernel_initializer or default_kernel_initializer(),
        regularizer=kernel_regularizer,
    )
    return bias_and_activate(
        tf.matmul(matrix, shared_read(kernel)),
        kernel,
        activation=activation,
        use_bias=use_bias,
        bias_initializer=bias_initializer,
        bias_regularizer=bias_regularizer,
        activity_regularizer=activity_regularizer,
    )
