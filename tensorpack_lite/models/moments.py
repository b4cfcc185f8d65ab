"""Moments and what is done with them: the parts that BatchNorm, BatchRenorm, LayerNorm and InstanceNorm share."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tfv1 as tf

__all__ = [
    "affine_parameters",
    "along",
    "batch_moments",
    "joint_moments",
    "normalize",
    "statistics_dtype",
]


def statistics_dtype(inputs: Any) -> Any:
    """Get the dtype in which statistics and affine parameters are kept: that of the inputs, but float32 for 16-bit ones."""
    dtype = inputs.dtype.base_dtype
    return tf.float32 if dtype.size < 4 else dtype


def batch_moments(inputs: Any, axes: list[int]) -> tuple[Any, Any]:
    """
    Compute mean and biased variance over `axes`, in `statistics_dtype`.

    Not by `tf.nn.moments`, which takes the mean for a constant in the variance: that leaves out nothing of its gradient, but
    half of the second derivative, which penalties on gradients need.

    Returns:
        Two tensors of the rank of the inputs, with size 1 on `axes`.
    """
    wide = tf.cast(inputs, statistics_dtype(inputs))
    mean = tf.reduce_mean(wide, axes, keepdims=True)
    return mean, tf.reduce_mean(tf.squared_difference(wide, mean), axes, keepdims=True)


def joint_moments(mean: Any, variance: Any, mean_over_all: Callable[[Any], Any]) -> tuple[Any, Any]:
    """
    Compute the moments of several batches together, from those of each.

    Args:
        mean, variance: of this batch, [C].
        mean_over_all: gives the mean of a vector over all batches; called once.

    Returns:
        Mean and biased variance of all, as if each batch had the same size, [C]. The variance is a difference of squares, and
        exact all the same: the squares are of float64.
    """
    dtype = mean.dtype
    mean = tf.cast(mean, tf.float64)
    mean_square = tf.cast(variance, tf.float64) + tf.square(mean)
    mean, mean_square = tf.split(mean_over_all(tf.concat([mean, mean_square], 0)), 2)
    variance = tf.maximum(mean_square - tf.square(mean), 0)
    return tf.cast(mean, dtype), tf.cast(variance, dtype)


def normalize(inputs: Any, mean: Any, variance: Any, beta: Any, gamma: Any, epsilon: float) -> Any:
    """
    Compute (inputs - mean) / sqrt(variance + epsilon) * gamma + beta, in `statistics_dtype`.

    Args:
        inputs: a tensor.
        mean, variance: of a shape that broadcasts with it.
        beta, gamma: the same, or None.
        epsilon: added to the variance.

    Returns:
        A tensor of the dtype of the inputs.
    """
    wide = tf.cast(inputs, statistics_dtype(inputs))
    return tf.cast(tf.nn.batch_normalization(wide, mean, variance, beta, gamma, epsilon), inputs.dtype)


def affine_parameters(
    channels: int, dtype: Any, center: bool, scale: bool, beta_initializer: Any, gamma_initializer: Any
) -> tuple[Any, Any]:
    """
    Get the trained variables `gamma` (None unless `scale`) and `beta` (None unless `center`), each [channels].

    Initializers that are None mean ones and zeros.
    """
    gamma = beta = None
    if scale:
        gamma = tf.get_variable("gamma", [channels], dtype, gamma_initializer or tf.ones_initializer())
    if center:
        beta = tf.get_variable("beta", [channels], dtype, beta_initializer or tf.zeros_initializer())
    return gamma, beta


def along(vector: Any, axis: int, rank: int) -> Any:
    """Give a vector (or None) the shape in which it broadcasts along one axis of a tensor of this rank."""
    if vector is None or axis == rank - 1:
        return vector
    return tf.reshape(vector, [-1] + [1] * (rank - 1 - axis))
