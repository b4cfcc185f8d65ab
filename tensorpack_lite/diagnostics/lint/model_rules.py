"""Rules about the cost and its gradients, and about dtypes and scales inside the graph."""

from __future__ import annotations

import re
from typing import Any, Iterator

from ...compat import tfv1 as tf
from ..data_check.remarks import Remark
from .graph_view import constant_of, place_of, remark_on, trace_back
from .losses import find_cross_entropies, find_terms
from .rate_rules import find_rates, initial_number
from .training import ExaminedTraining

_STOPS = ("StopGradient", "PreventGradient")
_NO_GRADIENT = ("Floor", "Ceil", "Round", "Rint", "Sign", "Shape", "Size", "Rank", "ZerosLike", "OnesLike")
_HEAVY = ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv3D", "MatMul")
_ARITHMETIC = ("Add", "AddV2", "Mul", "Sub")
_SGD = ("ApplyGradientDescent", "ApplyMomentum", "ResourceApplyGradientDescent", "ResourceApplyMomentum")
_RATE_OF_MEANS = 0.1  # a rate that is usual for the mean over a batch, and too large for a sum


def variable_without_gradient(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G01: a trainable variable that nothing updates, because the cost does not depend on it, or only without a gradient.

    Why: the variable keeps its initial value, which looks like a layer that does not learn. It is forgotten in the
    cost, or something without a gradient, such as an argmax or a cast to integers, is between them.

    Does not report a variable if something assigns it, or if it is frozen on purpose: by `tf.stop_gradient`, a gradient
    processor, or a list of variables for the optimizer.

    Source: tensorpack issues 87, 328.
    """
    if not training.targets:
        return
    for variable in tf.trainable_variables():
        if training.updates(variable):
            continue
        reads = [op for op in training.reads(variable) if op.name in training.step]
        if not reads:
            text = "the variable is trainable, but no training step reads it."
            yield remark_on("G01", variable, text, "Use it in the cost, or create it with trainable=False.")
            continue
        block = _find_block(training, reads)
        if block is not None:
            text = f"the variable gets no gradient, because {block.type} '{block.name}' ({place_of(block)}) has none."
            advice = "Compute the cost without this operation, or create the variable with trainable=False."
            yield remark_on("G01", variable, text, advice)


def _find_block(training: ExaminedTraining, reads: list[Any]) -> Any:
    """
    Return the operation without gradient that is on each way to the cost.

    Returns:
        The first one; None if the cost has a gradient, does not depend on the variable, or if `tf.stop_gradient` is on a way.
    """
    graph, before_cost = training.graph, training.before_cost
    if not any(op.name in before_cost for op in reads):
        return None
    names = graph.after([op.name for op in reads], lambda op: op.name in before_cost and _has_gradient(op))
    blocks = [op for op in graph.in_order(names & before_cost) if not _has_gradient(op)]
    if training.cost.op.name in names or any(op.type in _STOPS for op in blocks):
        return None
    return blocks[0] if blocks else None


def _has_gradient(op: Any) -> bool:
    if op.type in (*_STOPS, *_NO_GRADIENT):
        return False
    kinds = [tensor.dtype.base_dtype for tensor in op.outputs]
    return not kinds or not all(kind.is_integer or kind.is_bool for kind in kinds)


def cost_without_inputs(training: ExaminedTraining) -> Iterator[Remark]:
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
        text = "the cost does not depend on any input of the model."
        yield remark_on("G02", training.cost, text, "Compute it from the arguments of build_graph.")
        return
    for loss in find_cross_entropies(training.graph, training.before_cost):
        if ignores_data(loss.logits):
            text = f"the logits of {loss.function} do not depend on any input of the model."
            yield remark_on("G02", loss.logits, text, "Compute them from the arguments of build_graph.")


def probabilities_as_logits(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G03: the output of a softmax or sigmoid is given to a cross entropy "with logits", which applies it again.

    Why: the model still learns, slowly and to a worse result: a cross entropy of ten classes cannot fall below 1.46.

    Source: TensorFlow's documentation of `softmax_cross_entropy_with_logits`.
    """
    for loss in find_cross_entropies(training.graph, training.step):
        probabilities = trace_back(loss.logits).op
        if probabilities.type in ("Softmax", "Sigmoid"):
            user = f"{loss.function} ({place_of(loss.op)})"
            text = f"the output of a {probabilities.type.lower()} is given to {user}, which applies it again."
            yield remark_on("G03", probabilities, text, "Pass the logits, the input of this operation.")


def regularization_of_nothing(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G09: `regularize_cost` or `regularize_cost_from_collection` found no variable, so it adds 0.

    Why: the regular expression has a mistake, or the layers have no regularizers, and the weights are not regularized.

    Source: the warning of `regularize_cost`, which is easily missed.
    """
    for op in training.graph.in_order(training.before_cost):
        if op.type == "Const" and re.search(r"(^|/)empty_\w*regulariz\w*$", op.name):
            text = "the regularization cost is always 0, because it found no variable."
            advice = "Correct the regular expression, give the layers regularizers, or remove the call."
            yield remark_on("G09", op, text, advice)


def wrong_dtypes(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G08: arithmetic in 8 bits, which wraps around; or matrix products and convolutions in float64 in a model of float32.

    Why: `image - 128` of a uint8 image gives 228 for the pixel 100. And an array of NumPy that was float64 by default makes a
    part of the model float64, which takes twice the memory and, on most GPUs, 30 times as long.

    Does not report `255 - image`, `label - 1`, masks that are multiplied or subtracted, or models whose variables are
    all float64.

    Source: NumPy's and TensorFlow's rules for dtypes.
    """
    ops = list(training.graph.in_order(training.before_cost))
    for op in ops:
        if _wraps_around(op):
            dtype = op.outputs[0].dtype.base_dtype.name
            text = f"{op.type} computes in {dtype}, and wraps around."
            yield remark_on("G08", op, text, "Cast the images to float32 first.")
    heavy = [op for op in ops if op.type in _HEAVY and op.outputs[0].dtype.base_dtype == tf.float64]
    if heavy and any(variable.dtype.base_dtype == tf.float32 for variable in tf.trainable_variables()):
        text = "it computes in float64, but the model has variables of float32."
        yield remark_on("G08", heavy, text, "Cast its inputs to float32, with tf.cast or in the DataFlow.")


def _wraps_around(op: Any) -> bool:
    if op.type not in _ARITHMETIC or op.outputs[0].dtype.base_dtype not in (tf.uint8, tf.int8):
        return False
    constants = [constant_of(tensor) for tensor in op.inputs]
    if op.type == "Sub" and constants[0] is not None:
        return False
    return any(constant is not None and constant.size and constant.max() > 1 for constant in constants)


def sum_over_the_batch(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G11: the cost is the sum of the samples' cross entropies, and SGD has a learning rate of at least 0.1.

    Why: the gradient grows with the batch, so a rate that is right for the mean diverges, or works for one batch size only.

    Does not report optimizers that scale gradients, such as Adam, smaller rates, or costs that are not a sum of one
    cross entropy and terms without data.

    Source: lightning-bolts, "batch gradient verification"; the linear scaling rule of learning rates is for means.
    """
    terms = find_terms(training.graph, training.cost)
    if terms is None or terms.is_mean:
        return
    rates = [initial_number(rate) for rate in find_rates(training, _SGD)]
    largest = max((rate for rate in rates if rate is not None), default=0.0)
    if largest >= _RATE_OF_MEANS:
        text = f"the cost is a sum over the batch, so SGD with learning rate {largest:g} takes steps that grow with the batch."
        advice = "Use tf.reduce_mean, or divide the learning rate by the batch size."
        yield remark_on("G11", training.cost, text, advice)
