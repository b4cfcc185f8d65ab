"""
Normalisation of each channel: by the moments of the batch, of groups of it, of several batches, or by their moving averages.

`axis` is that of the channels; all vectors are [C].
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..tfutils.reads import shared_read
from .checks import layer_title
from .layout import convert_layout, get_kernel_format
from .moments import along, batch_moments, joint_moments, normalize
from .variables import VariableHolder, shared_constant

__all__ = [
    "NormWeights",
    "batch_statistics",
    "normalize_by_averages",
    "normalize_by_batch",
    "normalize_by_joint_batch",
    "normalize_groups",
    "normalize_with_correction",
]


_MIN_EPSILON = 1.001e-5  # cuDNN takes no less, and the same numbers everywhere are worth more


class NormWeights(NamedTuple):
    """The variables of a layer, each [C]; gamma and beta may be None."""

    gamma: Any
    beta: Any
    mean: Any
    variance: Any

    def holder(self) -> VariableHolder:
        """Hold them under the names that scripts use."""
        holder = VariableHolder(
            moving_mean=self.mean, mean=self.mean, moving_variance=self.variance, variance=self.variance
        )
        if self.gamma is not None:
            holder.gamma = self.gamma
        if self.beta is not None:
            holder.beta = self.beta
        return holder


def batch_statistics(inputs: Any, axis: int) -> tuple[Any, Any]:
    """Mean and biased variance of each channel, both [C]."""
    mean, variance = batch_moments(inputs, [i for i in range(inputs.shape.ndims) if i != axis])
    return tf.reshape(mean, [-1]), tf.reshape(variance, [-1])


def normalize_by_batch(inputs: Any, weights: NormWeights, axis: int, epsilon: float) -> tuple[Any, Any, Any]:
    """Normalise by the batch; returns the outputs, and the mean and variance that the averages follow."""
    if _has_fused_kernel(inputs):
        return _fused_kernel(inputs, weights, axis, epsilon, is_training=True)
    mean, variance = batch_statistics(inputs, axis)
    outputs = _normalize_with(inputs, weights, axis, epsilon, mean, variance)
    if inputs.shape.ndims == 4:  # as the fused kernel does
        count = tf.cast(tf.size(inputs) // tf.size(mean), variance.dtype)
        variance *= count / tf.maximum(count - 1, 1)
    return outputs, mean, variance


def normalize_by_averages(inputs: Any, weights: NormWeights, axis: int, epsilon: float) -> Any:
    """Normalise by the moving averages."""
    if _has_fused_kernel(inputs):
        return _fused_kernel(inputs, weights, axis, epsilon, is_training=False)[0]
    return _normalize_with(inputs, weights, axis, epsilon, weights.mean, weights.variance)


def normalize_by_joint_batch(
    inputs: Any, weights: NormWeights, axis: int, epsilon: float, mean_over_all: Callable[[Any], Any]
) -> tuple[Any, Any, Any]:
    """Normalise by this batch and others, over which a function takes means; returns as above, the biased variance."""
    mean, variance = joint_moments(*batch_statistics(inputs, axis), mean_over_all)
    return _normalize_with(inputs, weights, axis, epsilon, mean, variance), mean, variance


def normalize_groups(
    inputs: Any, weights: NormWeights, axis: int, epsilon: float, group_size: int
) -> tuple[Any, Any, Any]:
    """Normalise each group of datapoints by itself; the mean and variance returned are those of the first group."""
    batch_size = inputs.shape.as_list()[0]
    if batch_size is not None and batch_size % group_size:
        raise ValueError(
            f"{layer_title('BatchNorm')}: virtual_batch_size is {group_size}, wanted a divisor of the batch size {batch_size}."
        )
    shape = tf.shape(inputs)
    groups = tf.reshape(inputs, tf.concat([[-1, group_size], shape[1:]], 0))
    groups.set_shape([None, group_size] + inputs.shape.as_list()[1:])
    rank = groups.shape.ndims
    mean, variance = batch_moments(groups, [i for i in range(1, rank) if i != axis + 1])
    gamma, beta = (along(shared_read(var), axis + 1, rank) for var in (weights.gamma, weights.beta))
    outputs = tf.reshape(normalize(groups, mean, variance, beta, gamma, epsilon), shape)
    outputs.set_shape(inputs.shape)
    return outputs, tf.reshape(mean[0], [-1]), tf.reshape(variance[0], [-1])


def normalize_with_correction(
    inputs: Any, weights: NormWeights, axis: int, epsilon: float, mean: Any, variance: Any, r: Any, d: Any
) -> Any:
    """Compute (normalized * r + d) * gamma + beta as one scale and one offset."""
    gamma = r if weights.gamma is None else r * weights.gamma
    offset = d if weights.gamma is None else d * weights.gamma
    beta = offset if weights.beta is None else offset + weights.beta
    corrected = weights._replace(gamma=gamma, beta=beta)
    return _normalize_with(inputs, corrected, axis, epsilon, mean, variance)


def _normalize_with(
    inputs: Any, weights: NormWeights, axis: int, epsilon: float, mean: Any, variance: Any
) -> Any:
    mean, variance, beta, gamma = (
        along(shared_read(vector), axis, inputs.shape.ndims)
        for vector in (mean, variance, weights.beta, weights.gamma)
    )
    return normalize(inputs, mean, variance, beta, gamma, epsilon)


def _has_fused_kernel(inputs: Any) -> bool:
    return inputs.shape.ndims == 4 and inputs.dtype.base_dtype in (tf.float16, tf.float32)


def _fused_kernel(
    inputs: Any, weights: NormWeights, axis: int, epsilon: float, is_training: bool
) -> tuple[Any, Any, Any]:
    """Normalise with TensorFlow's kernel for images; in training its variance is the unbiased one."""
    channels = inputs.shape.as_list()[axis]
    data_format = "NCHW" if axis == 1 else "NHWC"
    kernel_format = get_kernel_format(data_format)
    # Not `tf.nn.fused_batch_norm`: in training it makes two empty constants for each layer.
    results = tensorflow.raw_ops.FusedBatchNormV3(
        x=convert_layout(inputs, data_format, kernel_format),
        scale=tf.ones([channels]) if weights.gamma is None else shared_read(weights.gamma),
        offset=tf.zeros([channels]) if weights.beta is None else shared_read(weights.beta),
        mean=shared_constant([], tf.float32) if is_training else shared_read(weights.mean),
        variance=shared_constant([], tf.float32) if is_training else shared_read(weights.variance),
        epsilon=max(epsilon, _MIN_EPSILON),
        data_format=kernel_format,
        is_training=is_training,
    )
    return convert_layout(results.y, kernel_format, data_format), results.batch_mean, results.batch_variance
