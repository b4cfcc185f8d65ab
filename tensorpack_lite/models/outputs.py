"""The second half that Conv2D, Conv2DTranspose and FullyConnected share: bias, activation, a name for the output."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tfv1 as tf
from ..tfutils.reads import shared_read
from ..utils.argtools import get_data_format
from .arguments import get_activation
from .variables import VariableHolder

__all__ = ["bias_and_activate"]


def bias_and_activate(
    outputs: Any,
    kernel: Any,
    data_format: str = "channels_last",
    activation: Callable[[Any], Any] | str | None = None,
    use_bias: bool = True,
    bias_initializer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
) -> Any:
    """
    Add `b`, apply the activation inside the layer's scope, and name the result `output`.

    Args:
        outputs: what the layer computed, its channels where `data_format` says.
        kernel: the layer's `W`, for the VariableHolder.
        data_format: "channels_last" or "channels_first".
        activation, use_bias, bias_initializer, bias_regularizer, activity_regularizer: as in Conv2D.

    Returns:
        A tensor with the attribute `variables`.
    """
    tensorflow_format = get_data_format(data_format, keras_mode=False)
    holder = VariableHolder(W=kernel)
    if use_bias:
        channels = outputs.shape.as_list()[-1 if tensorflow_format == "NHWC" else 1]
        holder.b = tf.get_variable(
            "b",
            [channels],
            dtype=outputs.dtype.base_dtype,
            initializer=bias_initializer or tf.zeros_initializer(),
            regularizer=bias_regularizer,
        )
        outputs = tf.nn.bias_add(outputs, shared_read(holder.b), data_format=tensorflow_format)
    outputs = get_activation(activation)(outputs)
    if activity_regularizer is not None:
        _regularize_activity(outputs, activity_regularizer)
    outputs = tf.identity(outputs, name="output")
    outputs.variables = holder
    return outputs


def _regularize_activity(outputs: Any, regularizer: Callable[[Any], Any]) -> None:
    """Penalise the outputs, per datapoint of the batch as TensorFlow's layers do."""
    with tf.name_scope("ActivityRegularizer"):
        batch_size = tf.cast(tf.shape(outputs)[0], outputs.dtype)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, regularizer(outputs) / batch_size)
