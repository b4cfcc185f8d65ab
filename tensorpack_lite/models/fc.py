"""Fully connected layer."""

from __future__ import annotations

from typing import Callable

from ..compat import tfv1 as tf
from ..tfutils.precision import multiply, read_as, to_compute_dtype, to_float32
from .arguments import convert_to_tflayer_args
from .checks import layer_title, require_integer
from .outputs import bias_and_activate
from .registry import layer_register
from .variables import create_kernel


def batch_flatten(x: tf.Tensor) -> tf.Tensor:
    """
    Reshape a batch to a matrix: all axes but the first become one.

    Args:
        x: [N, ...].

    Returns:
        [N, D], in row-major order. D is known statically if all sizes but N are.
    """
    size = tf.TensorShape(x.shape[1:]).num_elements()
    if size is not None:
        return tf.reshape(x, [-1, size])
    return tf.reshape(x, tf.stack([tf.shape(x)[0], -1]))


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=["units"], name_mapping={"out_dim": "units"})
def FullyConnected(
    inputs: tf.Tensor,
    units: int,
    activation: Callable[[tf.Tensor], tf.Tensor] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    bias_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    bias_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    activity_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.Tensor:
    """
    Multiply each datapoint by a matrix, called `FullyConnected(name, inputs, units, ...)`.

    y = activation(x W + b), where x is the inputs, flattened to [N, D].

    Shapes: [N, ...] -> [N, units].

    Args:
        inputs: [N, ...] of any floating dtype; the product D of all sizes but N must be known. Variables have
            its dtype.
        units: the number of outputs per datapoint; any integral number.
        activation, use_bias, kernel_initializer, bias_initializer: as in Conv2D.
        kernel_regularizer, bias_regularizer, activity_regularizer: as in Conv2D.

    Returns:
        A tensor named `<name>/output`, with `.variables.W` and `.variables.b`.

    Raises:
        ValueError: D is unknown, or `units` is not a positive integer.
        TypeError: `units` has another type.

    Variables: `W` [D, units] and `b` [units], trained.

    Example:
        >>> logits = FullyConnected("linear", x, 10)

    Old names of arguments: out_dim, nl, W_init, b_init.
    """
    units = require_integer("FullyConnected", "units", units)
    inputs = to_compute_dtype(tf.convert_to_tensor(inputs))
    matrix = batch_flatten(inputs)
    size = matrix.shape.as_list()[1]
    if size is None:
        raise ValueError(
            f"{layer_title('FullyConnected')}: the shape of the input is unknown (expected all sizes but the first, got "
            f"{inputs.shape}). Use x.set_shape(...)."
        )
    kernel = create_kernel([size, units], inputs, kernel_initializer, kernel_regularizer)
    outputs = to_float32(multiply(tf.matmul, matrix, read_as(kernel, inputs.dtype)))
    options = (activation, use_bias, bias_initializer, bias_regularizer, activity_regularizer)
    return bias_and_activate(outputs, kernel, "channels_last", *options)
