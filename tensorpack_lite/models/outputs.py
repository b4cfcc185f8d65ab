"""The last steps of layers: bias, activation and regularizer of Conv2D, Conv2DTranspose and FullyConnected; the name."""

from __future__ import annotations

from functools import partial
from typing import Callable

from ..compat import tfv1 as tf
from ..compat.variables import get_variable
from ..tfutils.collection import inside_branch, leave_branch_advice
from ..tfutils.early_read import shared_read
from ..tfutils.precision import to_float32, variable_dtype
from ..tfutils.symbolic_functions import compute_in_float32
from ..utils.argtools import get_data_format
from .arguments import get_activation
from .variables import VariableHolder


def bias_and_activate(
    outputs: tf.Tensor,
    kernel: tf.Variable,
    data_format: str,
    activation: Callable[[tf.Tensor], tf.Tensor] | str | None,
    use_bias: bool,
    bias_initializer: Callable[..., tf.Tensor] | None,
    bias_regularizer: Callable[[tf.Tensor], tf.Tensor] | None,
    activity_regularizer: Callable[[tf.Tensor], tf.Tensor] | None,
) -> tf.Tensor:
    """
    Add `b`, apply the activation inside the layer's scope, and name the result `output`.

    Args:
        outputs: the result of the layer so far.
        kernel: the variable `W` of the layer, for the VariableHolder.
        data_format: "channels_last" or "channels_first".
        activation, use_bias, bias_initializer, bias_regularizer, activity_regularizer: as in Conv2D.

    Returns:
        A tensor with the attribute `variables`.
    """
    tensorflow_format = get_data_format(data_format, keras_mode=False)
    bias = None
    if use_bias:
        channels = outputs.shape.as_list()[-1 if tensorflow_format == "NHWC" else 1]
        bias = get_variable(
            "b",
            [channels],
            dtype=variable_dtype(outputs),
            initializer=bias_initializer or tf.zeros_initializer(),
            regularizer=bias_regularizer,
        )
        # in float32, because the gradient of the bias is a sum over all positions
        add = partial(tf.nn.bias_add, data_format=tensorflow_format)
        outputs = compute_in_float32(add, outputs, shared_read(bias))
    outputs = get_activation(activation)(outputs)
    if activity_regularizer is not None:
        if inside_branch():
            raise RuntimeError(
                f"activity_regularizer: '{tf.get_variable_scope().name}' is inside a condition or a loop, so its cost cannot be "
                f"added to the cost of the model. {leave_branch_advice()}"
            )
        with tf.name_scope("ActivityRegularizer"):  # per datapoint, as in TensorFlow's layers
            values = to_float32(outputs)
            cost = activity_regularizer(values) / tf.cast(tf.shape(values)[0], values.dtype)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, cost)
    return name_output(outputs, W=kernel, b=bias)


def name_output(outputs: tf.Tensor, **variables: tf.Variable | None) -> tf.Tensor:
    """
    Name the result of a layer `output`, and attach its variables.

    Args:
        outputs: the result.
        **variables: short name -> variable, or None for one that this layer does not have.

    Returns:
        A tensor with the attribute `variables`.
    """
    outputs = tf.identity(outputs, name="output")
    outputs.variables = VariableHolder(**{name: var for name, var in variables.items() if var is not None})
    return outputs
