"""Small functions of tensors."""

from __future__ import annotations

import math
from typing import Any

from ..compat import tfv1 as tf

__all__ = ["print_stat", "psnr", "rms"]


def rms(x: Any, name: str | None = None) -> Any:
    """
    Root of the mean square: sqrt(mean(x^2)).

    Args:
        x: a floating-point tensor of any shape.
        name: of the resulting operation, in the current name scope; None means `<name of x>/rms` at the root.

    Returns:
        A scalar of the dtype of x.

    tensorpack: same.
    """
    mean_square = tf.reduce_mean(tf.square(x))
    if name is not None:
        return tf.sqrt(mean_square, name=name)
    with tf.name_scope(None):
        return tf.sqrt(mean_square, name=f"{x.op.name}/rms")


def psnr(prediction: Any, ground_truth: Any, maxp: float | None = None, name: str = "psnr") -> Any:
    """
    Peak signal-to-noise ratio in dB: 20 log10(maxp) - 10 log10(mean((prediction - ground_truth)^2)).

    Args:
        prediction: a floating-point tensor.
        ground_truth: one of the same shape.
        maxp: the largest possible value, e.g. 255; None means 1.

    Returns:
        A scalar named `name`.

    Source: https://en.wikipedia.org/wiki/Peak_signal-to-noise_ratio
    tensorpack: same; there leaving maxp out raises a TypeError.
    """
    mse = tf.reduce_mean(tf.square(prediction - ground_truth))
    decibel = tf.log(mse) * (-10.0 / math.log(10.0))
    peak = 0.0 if maxp is None else 20.0 * math.log10(float(maxp))
    return tf.add(decibel, peak, name=name)


def print_stat(x: Any, message: str | None = None) -> Any:
    """
    Print shape, mean, rms (of floating-point tensors) and up to 20 values of a tensor to stderr whenever it is evaluated.

    Args:
        x: a numeric tensor.
        message: what to print before; None means the tensor's name.

    Returns:
        A tensor equal to x, named `print_<name of x>`. It prints only where this one is used in place of x.

    tensorpack: same.
    """
    facts: list[Any] = ["shape:", tf.shape(x), "mean:", tf.reduce_mean(x)]
    if x.dtype.is_floating:
        facts += ["rms:", rms(x, name="rms")]
    printed = tf.print(x.op.name if message is None else message, *facts, "values:", x, summarize=20)
    with tf.control_dependencies([printed]):
        return tf.identity(x, name=f"print_{x.op.name}")
