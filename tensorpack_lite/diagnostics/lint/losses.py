"""The cross entropies of a graph, with their logits and labels, and the terms of a cost that contains one."""

from __future__ import annotations

from typing import Any, Collection, Iterator, NamedTuple

from ...compat import tfv1 as tf
from .graph_view import GraphView, constant_of, trace_back

_SOFTMAX = {
    "SoftmaxCrossEntropyWithLogits": "softmax_cross_entropy_with_logits",
    "SparseSoftmaxCrossEntropyWithLogits": "sparse_softmax_cross_entropy_with_logits",
}
_SUMS = ("Add", "AddV2")
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
                yield CrossEntropy("sigmoid_cross_entropy_with_logits", op, logits, _labels_of_sigmoid(logits))


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


def _labels_of_sigmoid(logits: tf.Tensor) -> tf.Tensor | None:
    """Return z for the operation max(x, 0) - x * z, or (1 - z) * x + ..., which has weights; None if there is none."""
    for user in logits.consumers():
        factors = [tensor for tensor in user.inputs if tensor is not logits]
        if user.type == "Mul" and len(factors) == 1 and factors[0].op.type == "Sub":
            constant = constant_of(factors[0].op.inputs[0])
            if (
                constant is not None
                and (constant == 1).all()
                and any(op.type in _SUMS for op in user.outputs[0].consumers())
            ):
                return factors[0].op.inputs[1]
        if user.type == "Mul" and any(op.type == "Sub" for op in user.outputs[0].consumers()):
            return user.inputs[1] if user.inputs[0] is logits else user.inputs[0]
    return None


class CostTerms(NamedTuple):
    """
    A cost that is a reduced cross entropy plus terms that do not depend on the data, such as weight decay.

    Attributes:
        loss: the cross entropy.
        is_mean: whether the cost has the mean over the cross entropies of the samples; otherwise it has their sum.
        others: the other terms, scalars.
    """

    loss: CrossEntropy
    is_mean: bool
    others: list[tf.Tensor]


def find_terms(graph: GraphView, cost: tf.Tensor | None) -> CostTerms | None:
    """Return the terms of a cost; None if it is anything else than a mean or sum of one cross entropy plus other terms."""
    terms = [] if cost is None else find_addends(cost)
    on_data = [term for term in terms if any(map(graph.is_source, graph.before([term])))]
    if len(on_data) != 1:
        return None
    reduced = on_data[0]
    losses = list(find_cross_entropies(graph, graph.before([reduced], controls=False)))
    if len(losses) != 1:
        return None
    other_terms = [term for term in terms if term is not reduced]
    for is_mean in (True, False):
        if _is_reduced(reduced, losses[0].op, is_mean):
            return CostTerms(losses[0], is_mean, other_terms)
    return None


def find_addends(cost: tf.Tensor) -> list[tf.Tensor]:
    """Return the terms whose sum a cost is."""
    found, waiting = [], [cost]
    while waiting:
        tensor = trace_back(waiting.pop())
        if tensor.op.type in ("Add", "AddV2", "AddN"):
            waiting += tensor.op.inputs
        else:
            found.append(tensor)
    return found


def _is_reduced(tensor: tf.Tensor, losses: tf.Operation, is_mean: bool) -> bool:
    """Return whether a tensor is the mean, or the sum, of the first output of an operation."""
    op = tensor.op
    if op.type == ("Mean" if is_mean else "Sum"):
        return _without_weight(trace_back(op.inputs[0])).op is losses
    if op.type != "DivNoNan" or not is_mean:
        return False
    total = trace_back(op.inputs[0])  # tf.losses: the sum of the weighted losses, divided by their number
    while total.op.type == "Sum":
        total = trace_back(total.op.inputs[0])
    return _without_weight(total).op is losses


def _without_weight(tensor: tf.Tensor) -> tf.Tensor:
    """Return what a tensor multiplies by the constant 1; the tensor itself if it is another product."""
    if tensor.op.type == "Mul":
        first, second = map(trace_back, tensor.op.inputs)
        weight = constant_of(second)
        if weight is not None and weight.ndim == 0 and weight == 1:
            return first
    return tensor
