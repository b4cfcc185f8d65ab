"""Shapes that are only partly known while the graph is built."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tfv1 as tf


class StaticDynamicAxis:
    """
    The static and the dynamic size of one axis, and calculations on both. Scripts import it; see also
    `StaticDynamicShape`.

    Args:
        static: the size, or None if it is unknown.
        dynamic: the size, an integer or a scalar tensor.

    Attributes:
        static, dynamic: as given.
    """

    def __init__(self, static: int | None, dynamic: int | tf.Tensor) -> None:
        self.static, self.dynamic = static, dynamic

    def apply(self, f: Callable[[Any], Any]) -> StaticDynamicAxis:
        """
        Return the axis whose size is a function of this one's.

        Args:
            f: size -> size, called with an integer if the size is known, and with a scalar tensor otherwise.
        """
        if self.static is None:
            return StaticDynamicAxis(None, f(self.dynamic))
        size = f(self.static)
        return StaticDynamicAxis(size, size)

    def is_static(self) -> bool:
        """Return whether the size is known."""
        return self.static is not None

    def __str__(self) -> str:
        return f"S={self.static}, D={self.dynamic}"


class StaticDynamicShape:
    """
    The static and the dynamic shape of a tensor, and calculations on both.

    A size that is known statically is an integer and creates no operations. Other sizes are scalar tensors.

    Args:
        tensor: a tensor of known rank.

    Raises:
        ValueError: the rank is unknown.

    Example:
        >>> shape = StaticDynamicShape(x)               # x: [?, 7, 7, 64]
        >>> shape.apply(1, lambda size: size * 2)
        >>> shape.get_static()
        [None, 14, 7, 64]
        >>> tf.reshape(y, shape.get_dynamic())          # [<tensor>, 14, 7, 64]
    """

    def __init__(self, tensor: tf.Tensor) -> None:
        if tensor.shape.ndims is None:
            raise ValueError(f"StaticDynamicShape: the rank of {tensor.name} is unknown. Use x.set_shape(...).")
        self._tensor = tensor
        self._static: list[int | None] = tensor.shape.as_list()
        self._changes: list[list[Callable[[Any], Any]]] = [[] for _ in self._static]
        self._shape: Any = None

    def apply(self, axis: int, fn: Callable[[int | tf.Tensor], int | tf.Tensor]) -> None:
        """
        Change the size of an axis.

        Args:
            axis: the axis, from 0.
            fn: size -> size, called with an integer, or with a scalar int32 tensor if the size is unknown.
                The call with a tensor happens in `get_dynamic`.
        """
        size = self._static[axis]
        if size is not None:
            self._static[axis] = fn(size)
        else:
            self._changes[axis].append(fn)

    def get_static(self, axis: int | None = None) -> Any:
        """Return the size of an axis, None if it is unknown; without an axis, the list of all sizes."""
        if axis is None:
            return [self.get_static(i) for i in range(len(self._static))]
        return self._static[axis]

    def get_dynamic(self, axis: int | None = None) -> Any:
        """Return the size of an axis, a scalar int32 tensor if it is unknown; without an axis, the list of all sizes."""
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
