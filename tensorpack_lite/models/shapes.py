"""Layers without arithmetic."""

from __future__ import annotations

from typing import Sequence

from ..compat import tfv1 as tf
from .registry import layer_register


@layer_register(use_scope=None)
def ConcatWith(x: tf.Tensor, tensor: tf.Tensor | Sequence[tf.Tensor], dim: int) -> tf.Tensor:
    """
    Concatenate x and other tensors, for use in a `LinearWrap`.

    Args:
        x: the first tensor.
        tensor: a tensor, or a list or tuple of tensors, to append.
        dim: the axis.

    Returns:
        `tf.concat([x, *tensor], dim)`.

    Example:
        >>> y = LinearWrap(x).Conv2D("conv0", 32, 3).ConcatWith(x, 3)()
    """
    tensors = list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
    return tf.concat([x] + tensors, dim)
