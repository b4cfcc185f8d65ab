"""Rules about the cost and its gradients."""

from __future__ import annotations

import re
from typing import Any, Iterator

from ...compat import tfv1 as tf
from ...utils.remarks import Remark
from .graph_view import GraphView, place_of, trace_back
from .losses import find_cross_entropies
from .training import Training

__all__ = [
    "cost_without_inputs",
    "probabilities_as_logits",
    "regularization_of_nothing",
    "variable_without_gradient",
]

_STOPS = ("StopGradient", "PreventGradient")
_NO_GRADIENT = ("Floor", "Ceil", "Round", "Rint", "Sign", "Shape", "Size", "Rank", "ZerosLike", "OnesLike")


def variable_without_gradient(training: Training) -> Iterator[Remark]:
    """
    G01: a trainable variable that nothing updates, because the cost does not depend on it, or only without a gradient.

    Why: the variable keeps its initial value, which looks like a layer that does not learn. It is forgotten in the
    cost, or something without a gradient, such as an argmax or a cast to integers, is between them.

    Silent if something assigns the variable, or if it is frozen on purpose: by `tf.stop_gradient`, a gradient processor, or a
    list of variables for the optimizer.

    Source: tensorpack issues 87, 328.
    """
    if not training.targets:
        return
    for variable in tf.trainable_variables():
        if training.graph.updates(variable):
            continue
        reads = [op for op in training.graph.reads(variable) if op.name in training.step]
        if not reads:
            yield Remark(
                "G01",
                variable.op.name,
                "the variable is trainable, but no training step reads it.",
                "Use it in the cost, or create it with trainable=False.",
                place_of(variable),
            )
            continue
        block = None if training.cost is None else _find_block(training.graph, training.cost, reads)
        if block is not None:
            yield Remark(
                "G01",
                variable.op.name,
                f"the variable gets no gradient, because {block.type} '{block.name}' ({place_of(block)}) has none.",
                "Compute the cost without this operation, or create the variable with trainable=False.",
                place_of(variable),
            )


def _find_block(graph: GraphView, cost: tf.Tensor, reads: list[Any]) -> Any:
    """
    Return the operation without gradient that is on each way to the cost.

    Returns:
        The first one; None if the cost has a gradient, does not depend on the variable, or if `tf.stop_gradient` is on a way.
    """
    before_cost = graph.before([cost], controls=False)
    if not any(op.name in before_cost for op in reads):
        return None
    names = graph.after([op.name for op in reads], lambda op: op.name in before_cost and _has_gradient(op))
    blocks = [op for op in graph.in_order(names & before_cost) if not _has_gradient(op)]
    if cost.op.name in names or any(op.type in _STOPS for op in blocks):
        return None
    return blocks[0] if blocks else None


def _has_gradient(op: Any) -> bool:
    if op.type in (*_STOPS, *_NO_GRADIENT):
        return False
    kinds = [tensor.dtype.base_dtype for tensor in op.outputs]
    return not kinds or any(kind.is_floating or kind.is_complex or not _is_number(kind) for kind in kinds)


def _is_number(dtype: tf.DType) -> bool:
    return dtype.is_integer or dtype.is_bool


def cost_without_inputs(training: Training) -> Iterator[Remark]:
    """
    G02: the cost depends on none of the model's inputs, or the logits of a cross entropy do not.

    Why: such a model learns the same whatever the data is. Usually a variable of Python has the wrong name. Single inputs
    may be unused: data often has more components than a model needs.

    Source: neural-net-checklist, "the loss depends on the input".
    """
    if training.cost is None or not training.towers or not training.towers[0].inputs:
        return
    inputs = {tensor.op.name for tensor in training.towers[0].inputs}

    def ignores_data(tensor: tf.Tensor) -> bool:
        needed = training.graph.before([tensor])
        return not needed & inputs and not any(map(training.graph.is_source, needed))

    if ignores_data(training.cost):
        yield Remark(
            "G02",
            training.cost.op.name,
            "the cost does not depend on any input of the model.",
            "Compute it from the arguments of build_graph.",
            place_of(training.cost),
        )
        return
    for loss in find_cross_entropies(training.graph, training.graph.before([training.cost], controls=False)):
        if ignores_data(loss.logits):
            yield Remark(
                "G02",
                loss.logits.op.name,
                f"the logits of {loss.function} do not depend on any input of the model.",
                "Compute them from the arguments of build_graph.",
                place_of(loss.logits),
            )


def probabilities_as_logits(training: Training) -> Iterator[Remark]:
    """
    G03: the output of a softmax or sigmoid is given to a cross entropy "with logits", which applies it again.

    Why: the model still learns, slowly and to a worse result: a cross entropy of ten classes cannot fall below 1.46.

    Source: TensorFlow's documentation of `softmax_cross_entropy_with_logits`.
    """
    for loss in find_cross_entropies(training.graph, training.step):
        probabilities = trace_back(loss.logits).op
        if probabilities.type in ("Softmax", "Sigmoid"):
            yield Remark(
                "G03",
                probabilities.name,
                f"the output of a {probabilities.type.lower()} is given to {loss.function} ({place_of(loss.op)}), which "
                "applies it again.",
                "Pass the logits, the input of this operation.",
                place_of(probabilities),
            )


def regularization_of_nothing(training: Training) -> Iterator[Remark]:
    """
    G09: `regularize_cost` or `regularize_cost_from_collection` found no variable, so it adds 0.

    Why: the regular expression has a mistake, or the layers have no regularizers, and the weights are not regularized.

    Source: the warning of `regularize_cost`, which is easily missed.
    """
    if training.cost is None:
        return
    for op in training.graph.in_order(training.graph.before([training.cost], controls=False)):
        if op.type == "Const" and re.search(r"(^|/)empty_\w*regulariz\w*$", op.name):
            yield Remark(
                "G09",
                op.name,
                "the regularization cost is always 0, because it found no variable.",
                "Correct the regular expression, give the layers regularizers, or remove the call.",
                place_of(op),
            )
