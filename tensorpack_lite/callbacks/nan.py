"""Callback that ends training when a loss becomes NaN."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..compat.private import inside_control_flow
from ..loop.callback import Callback
from ..loop.state import StopTraining

__all__ = ["TerminateOnNaN"]

_CHECKED_TYPES = ("float16", "float32", "float64")
_READS = ("ReadVariableOp", "VariableV2", "Variable")


class TerminateOnNaN(Callback):
    """
    End training when a loss becomes NaN or infinite, and name the tensor where it began. Like
    `TerminateOnNaN` in Keras.

    The losses are checked in every run. If a loss is not finite, the same run, with the same data and
    weights, checks all tensors that the losses depend on, in the order in which the graph was built. The
    error names the step, the values of all losses, and the first tensor that is not finite. If it is a
    variable, an earlier update broke it; if it is an input, the data is wrong; otherwise, look at the layer
    that computes it.

    Args:
        names: name of a loss, or a list of names, without a tower's prefix.
        fail: raise an error from `train()`; otherwise log it and end training with `StopTraining`.

    Raises:
        ValueError: `names` is empty; in `setup_graph`: a tensor is not of a floating-point type.
        KeyError: in `setup_graph`: a name does not exist.
        FloatingPointError: a loss is not finite.

    Runs at: setup_graph, every run.

    Example:
        >>> TerminateOnNaN(["cost", "regularize_cost"])

    Note: while the losses are finite, only the losses are checked. Tensors inside `tf.cond` or
    `tf.while_loop`, and towers other than the first, are not checked. To check only the variables, use
    `CheckNumerics`.
    """

    def __init__(self, names: str | Sequence[str] = "cost", fail: bool = True) -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        if not self._names:
            raise ValueError("TerminateOnNaN: names is empty (expected names of losses, e.g. 'cost').")
        self._fail = fail
        self._suspects: list[tf.Tensor] = []
        self._args: tf.train.SessionRunArgs | None = None

    def _setup_graph(self) -> None:
        losses = self.get_tensors_maybe_in_tower(self._names)
        for name, loss in zip(self._names, losses):
            if not _is_checked(loss):
                raise ValueError(
                    f"TerminateOnNaN: '{name}' is of the wrong type (expected a floating-point tensor, got {loss!r})."
                )
        self._suspects = _computed_from(losses)
        first_bad = tf.cond(
            tf.reduce_all(tf.stack([_is_finite(loss) for loss in losses])),
            lambda: tf.constant(-1, tf.int64),
            lambda: _first_not_finite(self._suspects),
            name="first_bad",
        )
        self._args = tf.train.SessionRunArgs([first_bad, losses])

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        first_bad, losses = run_values.results
        if first_bad < 0:
            return
        values = ", ".join(f"{name} = {_shown(value)}" for name, value in zip(self._names, losses))
        message = (
            f"TerminateOnNaN: loss is not finite at global_step={self.global_step}, epoch {self.epoch_num}: {values}. "
            f"Of {len(self._suspects)} tensors, the first with NaN or infinity is {_describe(self._suspects[first_bad])}."
        )
        if self._fail:
            raise FloatingPointError(message)
        raise StopTraining(message)


def _computed_from(losses: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the losses and the tensors they depend on, in the order of the graph."""
    operations: dict[str, Any] = {}
    waiting = [loss.op for loss in losses]
    while waiting:
        op = waiting.pop()
        if op.name not in operations:
            operations[op.name] = op
            waiting.extend(tensor.op for tensor in op.inputs)
    graph = losses[0].graph
    ordered = [op for op in graph.get_operations() if op.name in operations and op.type != "Const"]
    return [
        tensor
        for op in ordered
        if not inside_control_flow(op)
        for tensor in op.outputs
        if _is_checked(tensor)
    ]


def _is_checked(tensor: tf.Tensor) -> bool:
    return isinstance(tensor, tf.Tensor) and tensor.dtype.base_dtype.name in _CHECKED_TYPES


def _is_finite(tensor: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(tf.math.is_finite(tensor))


def _first_not_finite(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the index of the first tensor with NaN or infinity; at least one has it."""
    return tf.argmin(tf.cast(tf.stack([_is_finite(tensor) for tensor in tensors]), tf.int32))


def _shown(value: np.ndarray | np.generic) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array:.5g}"
    return f"{int(np.sum(~np.isfinite(array)))} of {array.size} values not finite"


def _describe(tensor: tf.Tensor) -> str:
    op = tensor.op
    if op.type in _READS:
        source = op.inputs[0].op if op.inputs else op
        return f"the variable '{source.name}'"
    if op.type.startswith("Placeholder"):
        return f"the input '{op.name}'"
    return f"'{tensor.name}' ({op.type})"
