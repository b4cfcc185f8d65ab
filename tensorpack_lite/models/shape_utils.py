"""Shapes that are partly known while the graph is built and wholly known when it runs."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tfv1 as tf

__all__ = ["StaticDynamicShape"]


class StaticDynamicShape:
    """
    The shape of a tensor, both ways, and calculations on it.

    A size is an integer as long as it is known statically, and a scalar tensor of the graph only where it must be: what
    is known makes no operations.

    Args:
        tensor: a tensor of known rank.

    Raises:
        ValueError: its rank is unknown.

    Example:
        >>> shape = StaticDynamicShape(x)               # x: [?, 7, 7, 64]
        >>> shape.apply(1, lambda size: size * 2)
        >>> shape.get_static()
        [None, 14, 7, 64]
        >>> tf.reshape(y, shape.get_dynamic())          # [<tensor>, 14, 7, 64]

    tensorpack: same.
    """

    def __init__(self, tensor: Any) -> None:
        if tensor.shape.ndims is None:
            raise ValueError(
                f"StaticDynamicShape: the rank of {tensor.name} is unknown. Use x.set_shape(...)."
            )
        self._tensor = tensor
        self._static: list[int | None] = tensor.shape.as_list()
        self._changes: list[list[Callable[[Any], Any]]] = [[] for _ in self._static]
        self._shape: Any = None

    def apply(self, axis: int, fn: Callable[[Any], Any]) -> None:
        """
        Change the size of an axis.

        Args:
            axis: from 0.
            fn: size -> size; called with an integer, or with a scalar int32 tensor where the size is unknown. It may be
                called for the tensor later, or never.
        """
        size = self._static[axis]
        if size is not None:
            self._static[axis] = fn(size)
        else:
            self._changes[axis].append(fn)

    def get_static(self, axis: int | None = None) -> Any:
        """Get the size of an axis, None where it is unknown; or the list of all sizes."""
        if axis is None:
            return [self.get_static(i) for i in range(len(self._static))]
        return self._static[axis]

    def get_dynamic(self, axis: int | None = None) -> Any:
        """Get the size of an axis, a scalar int32 tensor where it is unknown; or the list of all sizes."""
        if axis is None:
            return [self.get_dynamic(i) for i in range(len(self._static))]
        size = self._static[axis]
        if size is not None:
            return size
        if self._shape is None:
            self._shape = tf.shape(self._tensor)
        dynamic = self._shape[axis]
        for change in self._changes[axis]:
            dynamic = change(dynamic)
        return dynamic
