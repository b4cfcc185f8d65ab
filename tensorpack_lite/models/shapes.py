"""Layers that only move values."""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import tfv1 as tf
from .registry import layer_register

__all__ = ["ConcatWith"]


@layer_register(use_scope=None)
def ConcatWith(x: Any, tensor: Any | Sequence[Any], dim: int) -> Any:
    """
    Concatenate x with other tensors; for use in a `LinearWrap`.

    Args:
        x: the first part.
        tensor: what follows: a tensor, or a list or tuple of tensors.
        dim: along which axis.

    Returns:
        `tf.concat([x, *tensor], dim)`.

    Example:
        >>> y = LinearWrap(x).Conv2D("conv0", 32, 3).ConcatWith(x, 3)()

    tensorpack: same.
    """
    others = list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
    return tf.concat([x] + others, dim)
