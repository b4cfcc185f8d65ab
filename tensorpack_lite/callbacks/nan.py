"""The end of a training whose loss is no number any more."""

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
    End training when a loss becomes NaN or infinite, and say where that began; known by this name from Keras.

    Losses are checked in every run. If one is not finite, then within the same run, and so on the same data and weights,
    all tensors that it is computed from are checked, in the order in which the graph was built. The error names the step,
    the values of all losses, and the first such tensor: a variable means that an earlier update broke it, an input means
    the data, anything else is the layer to look at.

    Args:
        names: the losses: one name, or a list of names, without a tower's prefix.
        fail: raise an error, which `train()` raises too; otherwise log it and end training as with `StopTraining`.

    Raises:
        ValueError: in `setup_graph`, no names, or a tensor that holds no floating-point numbers.
        KeyError: in `setup_graph`, a name does not exist.
        FloatingPointError: a loss is not finite.

    Runs at: setup_graph, every run.

    Example:
        >>> TerminateOnNaN(["cost", "regularize_cost"])

    Note: in good steps it costs the check of the losses. Tensors inside a `tf.cond` or a `tf.while_loop` are not looked
    into, and of several towers only the first one. To check the variables only, there is `CheckNumerics`.
    """

    def __init__(self, names: str | Sequence[str] = "cost", fail: bool = True) -> None:
        self._names = [names] if isinstance(names, str) else list(names)
        if not self._names:
            raise ValueError("TerminateOnNaN: names is empty, wanted the names of losses, such as 'cost'.")
        self._fail = fail
        self._suspects: list[Any] = []
        self._args: Any = None

    def _setup_graph(self) -> None:
        losses = self.get_tensors_maybe_in_tower(self._names)
        for name, loss in zip(self._names, losses):
            if not _is_checked(loss):
                raise ValueError(
                    f"TerminateOnNaN: '{name}' is {loss!r}, wanted a tensor of floating-point numbers."
                )
        self._suspects = _computed_from(losses)
        first_bad = tf.cond(
            tf.reduce_all(tf.stack([_is_finite(loss) for loss in losses])),
            lambda: tf.constant(-1, tf.int64),
            lambda: _first_not_finite(self._suspects),
            name="first_bad",
        )
        self._args = tf.train.SessionRunArgs([first_bad, losses])

    def _before_run(self, ctx: Any) -> Any:
        return self._args

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        first_bad, losses = run_values.results
        if first_bad < 0:
            return
        values = ", ".join(f"{name} = {_shown(value)}" for name, value in zip(self._names, losses))
        message = (
            f"TerminateOnNaN: not finite at global_step={self.global_step}, epoch {self.epoch_num}: {values}. "
            f"The first of {len(self._suspects)} tensors with NaN or infinity is {_describe(self._suspects[first_bad])}."
        )
        if self._fail:
            raise FloatingPointError(message)
        raise StopTraining(message)


def _computed_from(losses: Sequence[Any]) -> list[Any]:
    """List the tensors that the losses are computed from, and the losses, in the order of the graph."""
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


def _is_checked(tensor: Any) -> bool:
    return isinstance(tensor, tf.Tensor) and tensor.dtype.base_dtype.name in _CHECKED_TYPES


def _is_finite(tensor: Any) -> Any:
    return tf.reduce_all(tf.math.is_finite(tensor))


def _first_not_finite(tensors: Sequence[Any]) -> Any:
    """The index of the first tensor with NaN or infinity; there is one."""
    return tf.argmin(tf.cast(tf.stack([_is_finite(tensor) for tensor in tensors]), tf.int32))


def _shown(value: Any) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array:.5g}"
    return f"{int(np.sum(~np.isfinite(array)))} of {array.size} values not finite"


def _describe(tensor: Any) -> str:
    op = tensor.op
    if op.type in _READS:
        source = op.inputs[0].op if op.inputs else op
        return f"the variable '{source.name}'"
    if op.type.startswith("Placeholder"):
        return f"the input '{op.name}'"
    return f"'{tensor.name}' ({op.type})"
