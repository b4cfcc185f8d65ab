"""Tensors as input: whatever a function builds in the graph."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..tfutils.tower.context import get_current_tower_context
from ..utils.errors import type_error
from .base import FeedfreeInput

__all__ = ["DummyConstantInput", "TensorInput"]


class TensorInput(FeedfreeInput):
    """
    Let a function build the input tensors.

    Args:
        get_tensor_fn: called once for each tower, inside it; returns a list of tensors, one an input, that hold a new
            datapoint at each step.
        size: how many datapoints there are, >= 1; None means that it is not known.

    Attributes:
        get_tensor_fn: as given.

    Raises:
        TypeError: `get_tensor_fn` cannot be called; later: it does not return a list or tuple.
        ValueError: `size` is below 1; later: it returns a wrong number of tensors.

    tensorpack: same.
    """

    def __init__(self, get_tensor_fn: Callable[[], Sequence[Any]], size: int | None = None) -> None:
        if not callable(get_tensor_fn):
            raise type_error(type(self).__name__, "a function as get_tensor_fn", get_tensor_fn)
        if size is not None and int(size) < 1:
            raise ValueError(
                f"{type(self).__name__}: size is {size}, wanted at least 1, or None if it is not known."
            )
        self.get_tensor_fn = get_tensor_fn
        self._fixed_size = size

    def _setup(self, input_signature: Sequence[Any]) -> None:
        self._signature = list(input_signature)

    def _get_input_tensors(self) -> Sequence[Any]:
        with self.cached_name_scope():
            tensors = self.get_tensor_fn()
        name = type(self).__name__
        if not isinstance(tensors, (list, tuple)):
            raise TypeError(
                f"{name}: get_tensor_fn must return a list of tensors, got {type(tensors).__name__}. Return [tensor, ...]."
            )
        if len(tensors) != len(self._signature):
            raise ValueError(
                f"{name}: get_tensor_fn returned {len(tensors)} tensors, the model takes {len(self._signature)} "
                f"({', '.join(spec.name for spec in self._signature)})."
            )
        return tensors

    def _size(self) -> int:
        return super()._size() if self._fixed_size is None else int(self._fixed_size)


class DummyConstantInput(TensorInput):
    """
    Zeros as input: the same graph without the data, to see what the data costs.

    Args:
        shapes: for each input, its static shape.

    Raises:
        ValueError: not as many shapes as the model has inputs.

    Example:
        >>> DummyConstantInput([[64, 224, 224, 3], [64]])

    tensorpack: same; there it cannot be used in a predict tower.
    """

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        super().__init__(self._make_zeros)
        self.shapes = shapes

    def _setup(self, input_signature: Sequence[Any]) -> None:
        super()._setup(input_signature)
        if len(self.shapes) != len(self._signature):
            raise ValueError(
                f"DummyConstantInput: got {len(self.shapes)} shapes, the model takes {len(self._signature)} inputs "
                f"({', '.join(spec.name for spec in self._signature)})."
            )

    def _make_zeros(self) -> list[Any]:
        tower = getattr(get_current_tower_context(), "index", 0)
        return [
            tf.constant(
                "" if spec.dtype == tf.string else 0, spec.dtype, shape, name=f"dummy-{spec.name}-{tower}"
            )
            for spec, shape in zip(self._signature, self.shapes)
        ]
