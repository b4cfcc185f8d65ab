"""
Arithmetic of BatchNorm, BatchRenorm, LayerNorm and InstanceNorm: moments, and normalization by them.

`axis` is the channel axis, and vectors are [C].
"""

from __future__ import annotations

from typing import Callable, NamedTuple

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..compat.private import has_kernel
from ..compat.variables import get_variable
from ..tfutils.early_read import shared_read
from ..utils.gpu import get_num_gpu
from .checks import layer_title
from .layout import convert_layout, get_kernel_format
from .variables import shared_constant

_MIN_EPSILON = 1.001e-5  # the smallest value that cuDNN accepts, used on every device for equal results


class NormWeights(NamedTuple):
    """The variables of a BatchNorm layer, each [C]; gamma and beta may be None."""

    gamma: tf.Variable | None
    beta: tf.Variable | None
    mean: tf.Variable
    variance: tf.Variable


def statistics_dtype(inputs: tf.Tensor) -> tf.DType:
    """Return the dtype of statistics and affine parameters: float32 for 16-bit inputs, otherwise that of the inputs."""
    dtype = inputs.dtype.base_dtype
    return tf.float32 if dtype.size < 4 else dtype


def affine_parameters(
    channels: int,
    dtype: tf.DType,
    center: bool,
    scale: bool,
    beta_initializer: Callable[..., tf.Tensor] | None,
    gamma_initializer: Callable[..., tf.Tensor] | None,
) -> tuple[tf.Variable | None, tf.Variable | None]:
    """
    Return the trained variables `gamma` (None unless `scale`) and `beta` (None unless `center`), each [channels].

    An initializer of None means ones for gamma and zeros for beta.
    """
    gamma = beta = None
    if scale:
        initializer = gamma_initializer or tf.ones_initializer()
        gamma = get_variable("gamma", [channels], dtype=dtype, initializer=initializer)
    if center:
        initializer = beta_initializer or tf.zeros_initializer()
        beta = get_variable("beta", [channels], dtype=dtype, initializer=initializer)
    return gamma, beta


# Moments --------------------------------------------------------------------------------------------------------


def compute_moments(inputs: tf.Tensor, axes: list[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """
    Compute the mean and biased variance over `axes`, in `statistics_dtype`.

    `tf.nn.moments` treats the mean as a constant in the variance. This is right for the gradient, but loses half of the
    second derivative, which gradient penalties need.

    Returns:
        Two tensors of the rank of the inputs, with size 1 along `axes`.
    """
    wide = tf.cast(inputs, statistics_dtype(inputs))
    mean = tf.reduce_mean(wide, axes, keepdims=True)
    return mean, tf.reduce_mean(tf.squared_difference(wide, mean), axes, keepdims=True)


def compute_batch_moments(inputs: tf.Tensor, axis: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Compute the mean and biased variance of each channel, both [C]."""
    mean, variance = compute_moments(inputs, [i for i in range(inputs.shape.ndims) if i != axis])
    return tf.reshape(mean, [-1]), tf.reshape(variance, [-1])


def combine_moments(
    mean: tf.Tensor, variance: tf.Tensor, mean_over_all: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    Compute the mean and biased variance of several batches from those of each, as if all had the same size.

    The variance is a difference of squares. It is exact because the squares are float64.

    Args:
        mean, variance: those of this batch.
        mean_over_all: returns the mean of a vector over all batches. It is called once, because each call is a message
            between devices or processes.
    """
    dtype = mean.dtype
    mean = tf.cast(mean, tf.float64)
    mean_square = tf.cast(variance, tf.float64) + tf.square(mean)
    mean, mean_square = tf.split(mean_over_all(tf.concat([mean, mean_square], 0)), 2)
    variance = tf.maximum(mean_square - tf.square(mean), 0)
    return tf.cast(mean, dtype), tf.cast(variance, dtype)


# Normalization --------------------------------------------------------------------------------------------------


def normalize(
    inputs: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    beta: tf.Tensor | None,
    gamma: tf.Tensor | None,
    epsilon: float,
) -> tf.Tensor:
    """
    Compute (inputs - mean) / sqrt(variance + epsilon) * gamma + beta in `statistics_dtype`.

    Args:
        inputs: a tensor.
        mean, variance: tensors that broadcast with the inputs.
        beta, gamma: the same, or None.
        epsilon: added to the variance.

    Returns:
        A tensor of the dtype of the inputs.
    """
    wide = tf.cast(inputs, statistics_dtype(inputs))
    return tf.cast(tf.nn.batch_normalization(wide, mean, variance, beta, gamma, epsilon), inputs.dtype)


def along(vector: tf.Tensor | None, axis: int, rank: int) -> tf.Tensor | None:
    """Reshape a vector (or None) so that it broadcasts along one axis of a tensor of the given rank."""
    if vector is None or axis == rank - 1:
        return vector
    return tf.reshape(vector, [-1] + [1] * (rank - 1 - axis))


def normalize_channels(
    inputs: tf.Tensor, weights: NormWeights, axis: int, epsilon: float, mean: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    """Normalize each channel by the given mean and variance."""
    mean, variance, beta, gamma = (
        along(shared_read(vector), axis, inputs.shape.ndims) for vector in (mean, variance, weights.beta, weights.gamma)
    )
    return normalize(inputs, mean, variance, beta, gamma, epsilon)


def normalize_by_averages(inputs: tf.Tensor, weights: NormWeights, axis: int, epsilon: float) -> tf.Tensor:
    """Normalize each channel by the moving averages."""
    if _has_fused_kernel(inputs):
        return _fused_kernel(inputs, weights, axis, epsilon, is_training=False)[0]
    return normalize_channels(inputs, weights, axis, epsilon, weights.mean, weights.variance)


def normalize_by_batch(
    inputs: tf.Tensor, weights: NormWeights, axis: int, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Normalize by the moments of the batch. Return the outputs, and the mean and variance that the averages follow."""
    if _has_fused_kernel(inputs):
        return _fused_kernel(inputs, weights, axis, epsilon, is_training=True)
    mean, variance = compute_batch_moments(inputs, axis)
    outputs = normalize_channels(inputs, weights, axis, epsilon, mean, variance)
    if inputs.shape.ndims == 4:  # unbiased, like the variance of the fused kernel
        sizes = [tf.size(tensor, out_type=tf.int64) for tensor in (inputs, mean)]
        count = tf.cast(sizes[0] // sizes[1], variance.dtype)
        variance *= count / tf.maximum(count - 1, 1)
    return outputs, mean, variance


def normalize_groups(
    inputs: tf.Tensor, weights: NormWeights, axis: int, epsilon: float, group_size: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Normalize each group of datapoints by its own moments. Return the outputs, and the moments of the first group."""
    batch_size = inputs.shape.as_list()[0]
    if batch_size is not None and batch_size % group_size:
        raise ValueError(
            f"{layer_title('BatchNorm')}: virtual_batch_size is invalid (expected a divisor of the batch size {batch_size}, "
            f"got {group_size})."
        )
    shape = tf.shape(inputs)
    groups = tf.reshape(inputs, tf.concat([[-1, group_size], shape[1:]], 0))
    groups.set_shape([None, group_size] + inputs.shape.as_list()[1:])
    rank = groups.shape.ndims
    mean, variance = compute_moments(groups, [i for i in range(1, rank) if i != axis + 1])
    gamma, beta = (along(shared_read(var), axis + 1, rank) for var in (weights.gamma, weights.beta))
    outputs = tf.reshape(normalize(groups, mean, variance, beta, gamma, epsilon), shape)
    outputs.set_shape(inputs.shape)
    return outputs, tf.reshape(mean[0], [-1]), tf.reshape(variance[0], [-1])


def _has_fused_kernel(inputs: tf.Tensor) -> bool:
    dtype = inputs.dtype.base_dtype
    if inputs.shape.ndims != 4 or dtype not in (tf.bfloat16, tf.float16, tf.float32):
        return False
    device = "GPU" if get_num_gpu() > 0 else "CPU"
    kinds = ("FusedBatchNormV3", "FusedBatchNormGradV3")
    return dtype != tf.bfloat16 or all(has_kernel(kind, dtype, device) for kind in kinds)


def _fused_kernel(
    inputs: tf.Tensor, weights: NormWeights, axis: int, epsilon: float, is_training: bool
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Normalize images with TensorFlow's kernel, whose variance is unbiased in training."""
    channels = inputs.shape.as_list()[axis]
    data_format = "NCHW" if axis == 1 else "NHWC"
    kernel_format = get_kernel_format(data_format)
    # `tf.nn.fused_batch_norm` would create two empty constants per layer in training.
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
