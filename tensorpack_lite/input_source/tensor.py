"""Inputs whose tensors a function builds in the graph."""

from __future__ import annotations

from typing import Callable, Sequence

from ..compat import tfv1 as tf
from ..tfutils.tower.context import get_current_tower_context
from ..utils.checks import check_at_least, check_callable, check_type
from .base import FeedfreeInput
from .datapoint import check_num_inputs


class TensorInput(FeedfreeInput):
    """
    Input whose tensors a function builds.

    Args:
        get_tensor_fn: called once inside each tower. Returns a list of tensors, one for each input, which contain a new
            datapoint in each step.
        size: the number of datapoints, >= 1. None: unknown.

    Attributes:
        get_tensor_fn: as given.

    Raises:
        TypeError: `get_tensor_fn` is not callable, or does not return a list or tuple.
        ValueError: `size` is below 1, or `get_tensor_fn` returns a wrong number of tensors.
    """

    def __init__(self, get_tensor_fn: Callable[[], Sequence[tf.Tensor]], size: int | None = None) -> None:
        name = type(self).__name__
        check_callable(f"{name}: get_tensor_fn", get_tensor_fn)
        if size is not None:
            check_at_least(f"{name}: size", int(size), 1)
        self.get_tensor_fn = get_tensor_fn
        self._fixed_size = size

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        self._signature = list(input_signature)
        self.flow.no_position = "the tensors of get_tensor_fn have no position"

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        with self.cached_name_scope():
            tensors = self.get_tensor_fn()
        name = type(self).__name__
        check_type(f"{name}: the result of get_tensor_fn", tensors, (list, tuple), advice="Return [tensor, ...].")
        check_num_inputs(name, "the number of tensors from get_tensor_fn", tensors, self._signature)
        return tensors

    def _size(self) -> int:
        return super()._size() if self._fixed_size is None else int(self._fixed_size)


class DummyConstantInput(TensorInput):
    """
    Input of zeros. A training with it shows how fast training would be without the cost of the data.

    Args:
        shapes: the static shape of each input.

    Raises:
        ValueError: the number of shapes is not the number of inputs.

    Example:
        >>> DummyConstantInput([[64, 224, 224, 3], [64]])
    """

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        super().__init__(self._make_zeros)
        self.shapes = shapes

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        super()._setup(input_signature)
        self.flow.no_position = ""  # zeros have none
        check_num_inputs("DummyConstantInput", "the number of shapes", self.shapes, self._signature)

    def _make_zeros(self) -> list[tf.Tensor]:
        tower = getattr(get_current_tower_context(), "index", 0)
        return [
            tf.constant("" if spec.dtype == tf.string else 0, spec.dtype, shape, name=f"dummy-{spec.name}-{tower}")
            for spec, shape in zip(self._signature, self.shapes)
        ]
