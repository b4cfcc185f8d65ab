"""Small functions of tensors."""

from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import numpy as np

from ..compat import tfv1 as tf

__all__ = ["map_values", "print_stat", "psnr", "rms", "values_of"]


def compute_in_float32(function: Callable[..., tf.Tensor], *tensors: tf.Tensor) -> tf.Tensor:
    """
    Return `function(*tensors)`, computed in float32 if the first tensor has 16 bits.

    TensorFlow's kernels for 16 bits also add up in 16 bits, e.g. 10000 ones to 256 in bfloat16, and a number such as 1.001 is 1
    there. The gradients of the function are computed in float32, too.

    Args:
        function: a function from tensors to a tensor.
        *tensors: floating-point tensors.

    Returns:
        A tensor of the dtype of the first tensor, if that has 16 bits.
    """
    dtype = tensors[0].dtype.base_dtype
    if dtype not in (tf.float16, tf.bfloat16):
        return function(*tensors)
    return tf.cast(function(*map(widen, tensors)), dtype)


def widen(x: tf.Tensor) -> tf.Tensor:
    """Cast a tensor of 16 bits to float32, in which it can be added up. Return other tensors unchanged."""
    return tf.cast(x, tf.float32) if x.dtype.base_dtype in (tf.float16, tf.bfloat16) else x


def rms(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """
    Return the root mean square of a tensor: sqrt(mean(x^2)).

    Args:
        x: a floating-point tensor of any shape.
        name: name of the resulting operation, in the current name scope. None means `<name of x>/rms` at the root.

    Returns:
        A scalar with the dtype of x; float32 if x has 16 bits.
    """
    mean_square = tf.reduce_mean(tf.square(widen(x)))
    if name is not None:
        return tf.sqrt(mean_square, name=name)
    with tf.name_scope(None):
        return tf.sqrt(mean_square, name=f"{x.op.name}/rms")


def psnr(prediction: tf.Tensor, ground_truth: tf.Tensor, maxp: float | None = None, name: str = "psnr") -> tf.Tensor:
    """
    Return the peak signal-to-noise ratio in dB: 20 log10(maxp) - 10 log10(mean((prediction - ground_truth)^2)).

    Args:
        prediction: a floating-point tensor.
        ground_truth: a tensor of the same shape.
        maxp: the largest possible value, e.g. 255. None means 1.

    Returns:
        A scalar named `name`.

    Source: https://en.wikipedia.org/wiki/Peak_signal-to-noise_ratio
    """
    mse = tf.reduce_mean(tf.square(widen(prediction) - widen(ground_truth)))
    decibel = tf.log(mse) * (-10.0 / math.log(10.0))
    peak = 0.0 if maxp is None else 20.0 * math.log10(float(maxp))
    return tf.add(decibel, peak, name=name)


def print_stat(x: tf.Tensor, message: str | None = None) -> tf.Tensor:
    """
    Return a copy of a tensor that prints statistics to stderr whenever it is evaluated.

    It prints the shape, the mean, the rms of floating-point tensors, and up to 20 values.

    Args:
        x: a numeric tensor.
        message: a text to print first. None means the tensor's name.

    Returns:
        A tensor equal to x, named `print_<name of x>`. Use it in place of x, because only its evaluation prints.
    """
    facts: list[Any] = ["shape:", tf.shape(x), "mean:", tf.reduce_mean(widen(x))]
    if x.dtype.is_floating:
        facts += ["rms:", rms(x, name="rms")]
    printed = tf.print(x.op.name if message is None else message, *facts, "values:", x, summarize=20)
    with tf.control_dependencies([printed]):
        return tf.identity(x, name=f"print_{x.op.name}")


def values_of(x: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    """Return a tensor unchanged, and the values of the existing rows of an `IndexedSlices`."""
    return x.values if isinstance(x, tf.IndexedSlices) else x


def sum_repeated_rows(x: tf.Tensor | tf.IndexedSlices | None) -> tf.Tensor | tf.IndexedSlices | None:
    """
    Return an `IndexedSlices` in which each row occurs once, and anything else unchanged.

    A row that a batch looks up several times has several slices. Only their sum is a part of the gradient.
    """
    if not isinstance(x, tf.IndexedSlices):
        return x
    rows, position = tf.unique(x.indices)
    number = tf.size(rows)
    values = compute_in_float32(lambda values: tf.unsorted_segment_sum(values, position, number), x.values)
    return tf.IndexedSlices(values, rows, x.dense_shape)


def map_values(func: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor | tf.IndexedSlices) -> tf.Tensor | tf.IndexedSlices:
    """Apply a function to a tensor, or to the values of an `IndexedSlices`."""
    if isinstance(x, tf.IndexedSlices):
        return tf.IndexedSlices(func(x.values), x.indices, x.dense_shape)
    return func(x)


# Functions of tensorpack 0.2 to 0.9, for scripts ---------------------------------------------------------------------
def prediction_incorrect(
    logits: tf.Tensor, label: tf.Tensor, topk: int = 1, name: str = "incorrect_vector"
) -> tf.Tensor:
    """
    Return which predictions are wrong.

    Args:
        logits: [N, C].
        label: [N] integers.
        topk: a prediction is right if its label is among the `topk` largest logits.
        name: name of the result.

    Returns:
        [N] float32: 1 where the prediction is wrong, otherwise 0.
    """
    return tf.cast(tf.logical_not(tf.nn.in_top_k(logits, label, topk)), tf.float32, name=name)


def accuracy(logits: tf.Tensor, label: tf.Tensor, topk: int = 1, name: str | None = None) -> tf.Tensor:
    """Return the share of right predictions, a float32 scalar. The arguments are those of `prediction_incorrect`."""
    return tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, label, topk), tf.float32), name=name)


def batch_flatten(x: tf.Tensor) -> tf.Tensor:
    """Reshape [N, ...] to [N, D]. D is known if all axes after the first are."""
    batch, *sizes = x.shape.as_list()
    flat = tf.reshape(x, [tf.shape(x)[0], -1])
    flat.set_shape([batch, None if None in sizes else int(np.prod(sizes))])
    return flat


def huber_loss(x: tf.Tensor, delta: float = 1, name: str = "huber_loss") -> tf.Tensor:
    """
    Return the Huber loss of each element: x^2 / 2 where |x| < delta, otherwise delta (|x| - delta / 2).

    Args:
        x: a floating-point tensor of any shape.
        delta: a positive number.
        name: name of the result, and of its name scope.
    """
    with tf.name_scope(name):
        absolute = tf.abs(x)
        return tf.where(absolute < delta, tf.square(x) * 0.5, delta * (absolute - 0.5 * delta), name=name)


def get_scalar_var(name: str, init_value: float, summary: bool = False, trainable: bool = False) -> tf.Variable:
    """
    Return a float32 scalar variable.

    Args:
        name: its name in the current variable scope.
        init_value: its initial value.
        summary: whether to summarize it as `<name>-summary`.
        trainable: whether optimizers update it.
    """
    variable = tf.get_variable(name, initializer=float(init_value), trainable=trainable)
    if summary:
        tf.summary.scalar(f"{name}-summary", variable)
    return variable


def shapeless_placeholder(x: tf.Tensor, axis: int | Sequence[int], name: str) -> tf.Tensor:
    """
    Return a placeholder whose default value is a tensor, and some of whose axes have an unknown size.

    Args:
        x: a tensor of known rank.
        axis: the axis, or a list of axes, whose size becomes unknown.
        name: name of the placeholder.
    """
    shape = x.shape.as_list()
    for index in [axis] if isinstance(axis, int) else axis:
        shape[index] = None
    return tf.placeholder_with_default(x, shape=shape, name=name)
