"""The cross entropies of a graph, with their logits and labels."""

from __future__ import annotations

from typing import Any, Collection, Iterator, NamedTuple

from ...compat import tfv1 as tf
from .graph_view import GraphView

__all__ = ["CrossEntropy", "find_cross_entropies"]

_SOFTMAX = {
    "SoftmaxCrossEntropyWithLogits": "softmax_cross_entropy_with_logits",
    "SparseSoftmaxCrossEntropyWithLogits": "sparse_softmax_cross_entropy_with_logits",
}
_SELECT = ("Select", "SelectV2")


class CrossEntropy(NamedTuple):
    """
    A cross entropy of logits.

    Attributes:
        function: the name of the function in `tf.nn`.
        op: an operation of it.
        logits: its logits.
        labels: its labels; None if they are not known.
    """

    function: str
    op: Any
    logits: tf.Tensor
    labels: tf.Tensor | None


def find_cross_entropies(graph: GraphView, names: Collection[str]) -> Iterator[CrossEntropy]:
    """
    Yield the cross entropies among some operations.

    Args:
        graph: the graph.
        names: names of operations.
    """
    for op in graph.in_order(names):
        if op.type in _SOFTMAX:
            yield CrossEntropy(_SOFTMAX[op.type], op, op.inputs[0], op.inputs[1])
        elif op.type == "Log1p":
            logits = _logits_of_sigmoid(op)
            if logits is not None:
                yield CrossEntropy("sigmoid_cross_entropy_with_logits", op, logits, None)


def _logits_of_sigmoid(log: Any) -> tf.Tensor | None:
    """Return x for the operation log(1 + exp(-|x|)), which each sigmoid cross entropy has; otherwise None."""
    exp = log.inputs[0].op
    if exp.type != "Exp":
        return None
    inner = exp.inputs[0].op
    if inner.type == "Neg" and inner.inputs[0].op.type == "Abs":
        return inner.inputs[0].op.inputs[0]
    if inner.type in _SELECT and inner.inputs[1].op.type == "Neg":
        logits = inner.inputs[2]
        return logits if inner.inputs[1].op.inputs[0] is logits else None
    return None
