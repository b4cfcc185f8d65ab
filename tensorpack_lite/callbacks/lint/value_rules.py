"""Rules about dtypes and scales inside the graph."""

from __future__ import annotations

from typing import Any, Iterator

from ...compat import tfv1 as tf
from ...utils.remarks import Remark, list_names
from .cost_terms import find_terms
from .graph_view import place_of, trace_back
from .training import Training

__all__ = ["sum_over_the_batch", "wrong_dtypes"]

_HEAVY = ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv3D", "MatMul")
_SGD = ("ApplyGradientDescent", "ApplyMomentum", "ResourceApplyGradientDescent", "ResourceApplyMomentum")
_RATE_OF_MEANS = 0.1  # a rate that is usual for the mean over a batch, and too large for a sum


def wrong_dtypes(training: Training) -> Iterator[Remark]:
    """
    G08: arithmetic in 8 bits, which wraps around; or matrix products and convolutions in float64 in a model of float32.

    Why: `image - 128` of a uint8 image gives 228 for the pixel 100. And an array of NumPy that was float64 by default makes a
    part of the model float64, which takes twice the memory and, on most GPUs, 30 times as long.

    Silent about `255 - image`, `label - 1`, masks that are multiplied or subtracted, and about models whose variables are
    all float64.

    Source: NumPy's and TensorFlow's rules for dtypes.
    """
    if training.cost is None:
        return
    ops = list(training.graph.in_order(training.graph.before([training.cost], controls=False)))
    for op in ops:
        if _wraps_around(op):
            dtype = op.outputs[0].dtype.base_dtype.name
            text = f"{op.type} computes in {dtype}, and wraps around."
            yield Remark("G08", op.name, text, "Cast the images to float32 first.", place_of(op))
    heavy = [op for op in ops if op.type in _HEAVY and op.outputs[0].dtype.base_dtype == tf.float64]
    if heavy and any(variable.dtype.base_dtype == tf.float32 for variable in tf.trainable_variables()):
        yield Remark(
            "G08",
            list_names([op.name for op in heavy]),
            "it computes in float64, but the model has variables of float32.",
            "Cast its inputs to float32, with tf.cast or in the DataFlow.",
            place_of(heavy[0]),
        )


def _wraps_around(op: Any) -> bool:
    if op.type not in ("Add", "AddV2", "Mul", "Sub") or op.outputs[0].dtype.base_dtype not in (
        tf.uint8,
        tf.int8,
    ):
        return False
    constants = [tf.get_static_value(trace_back(tensor)) for tensor in op.inputs]
    if op.type == "Sub" and constants[0] is not None:
        return False
    return any(one is not None and one.size and one.max() > 1 for one in constants)


def sum_over_the_batch(training: Training) -> Iterator[Remark]:
    """
    G11: the cost is the sum of the samples' cross entropies, and SGD has a learning rate of at least 0.1.

    Why: the gradient grows with the batch, so a rate that is right for the mean diverges, or works for one batch size only.

    Silent about optimizers that scale gradients, such as Adam, about smaller rates, and about costs that are not a sum of one
    cross entropy and terms without data.

    Source: lightning-bolts, "batch gradient verification"; the linear scaling rule of learning rates is for means.
    """
    if training.cost is None:
        return
    terms = find_terms(training.graph, training.cost)
    if terms is None or terms.is_mean:
        return
    rates = [_initial_rate(op) for op in training.graph.in_order(training.step) if op.type in _SGD]
    largest = max((rate for rate in rates if rate is not None), default=0.0)
    if largest >= _RATE_OF_MEANS:
        yield Remark(
            "G11",
            training.cost.op.name,
            f"the cost is a sum over the batch, so SGD with learning rate {largest:g} takes steps that grow with the batch.",
            "Use tf.reduce_mean, or divide the learning rate by the batch size.",
            place_of(training.cost),
        )


def _initial_rate(op: Any) -> float | None:
    """Return the learning rate that an update begins with; None if it is not a constant or a variable."""
    is_momentum = op.type.endswith("Momentum")
    rate = trace_back(op.inputs[2 if is_momentum else 1])
    if rate.op.type == "ReadVariableOp":
        rate = rate.op.inputs[0]
    for variable in tf.global_variables():
        if variable.op.name == rate.op.name:
            rate = trace_back(variable.initial_value)
            break
    value = tf.get_static_value(rate)
    return None if value is None else float(value)
