"""The cross entropy that a cost is: its sign, and whether it is a mean."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...compat import tfv1 as tf
from .graph_view import GraphView, constant_of, trace_back
from .losses import CrossEntropy, find_addends, find_cross_entropies

_QUOTIENTS = ("Div", "DivNoNan", "RealDiv")
_SUMS = ("Add", "AddV2", "AddN")
_LOGARITHMS = ("Log", "Log1p", "LogSoftmax")
_GATHERS = ("GatherNd", "GatherV2")
_MAX_DEPTH = 40


class SignedLoss(NamedTuple):
    """
    A cost that depends on the data through one cross entropy only.

    Attributes:
        op: the operation that computes it, or the logarithm in it.
        loss: the cross entropy; None if the script computes it from a logarithm.
        is_negated: whether the cost falls when the cross entropy grows.
        is_mean: whether the cost has its mean over all samples, not multiplied with anything.
        others: the terms of the cost that do not depend on the data, scalars.
    """

    op: Any
    loss: CrossEntropy | None
    is_negated: bool
    is_mean: bool
    others: list[tf.Tensor]

    @property
    def is_sigmoid(self) -> bool:
        """Whether it is a sigmoid cross entropy of `tf.nn`."""
        return self.loss is not None and self.loss.function.startswith("sigmoid")


def find_signed_loss(graph: GraphView, cost: tf.Tensor | None, trainable: set[str]) -> SignedLoss | None:
    """
    Return the cross entropy that a cost is, with its sign.

    Args:
        graph: the graph.
        cost: the cost.
        trainable: the names of the operations of trainable variables.

    Returns:
        None if the cost depends on the data in another way, e.g. through two losses or a weight that may be negative.
    """
    terms = [] if cost is None else find_addends(cost)
    on_data = [term for term in terms if _is_of_data(graph, term)]
    if len(on_data) != 1:
        return None
    loss = _Search(graph, trainable).follow(on_data[0])
    return None if loss is None else loss._replace(others=[term for term in terms if term is not on_data[0]])


def _is_of_data(graph: GraphView, tensor: tf.Tensor) -> bool:
    return any(map(graph.is_source, graph.before([tensor])))


class _Search:
    """A search along the operations of a cost, down to its cross entropy."""

    def __init__(self, graph: GraphView, trainable: set[str]) -> None:
        self._graph, self._trainable = graph, trainable

    def follow(self, tensor: tf.Tensor, depth: int = _MAX_DEPTH) -> SignedLoss | None:
        """Return the cross entropy of which a tensor is a mean, a sum or a multiple; None if there is none."""
        tensor = trace_back(tensor)
        op = tensor.op
        if depth == 0:
            return None
        losses = list(find_cross_entropies(self._graph, self._own_operations(op)))
        if losses:
            return SignedLoss(op, losses[0], False, True, [])
        if op.type in ("Neg", "Mean", "Sum"):
            inner = self.follow(op.inputs[0], depth - 1)
            is_mean = op.type == "Mean"
            return inner and inner._replace(
                is_negated=inner.is_negated != (op.type == "Neg"), is_mean=inner.is_mean and is_mean
            )
        if op.type in _QUOTIENTS:
            inner = self.follow(op.inputs[0], depth - 1)
            is_weighted_mean = op.type == "DivNoNan" and trace_back(op.inputs[0]).op.type == "Sum"  # tf.losses
            return inner and inner._replace(is_mean=is_weighted_mean)
        if op.type == "Mul":
            return self._follow_product(op, depth)
        if op.type in _GATHERS and _is_log_softmax(op.inputs[0]):
            return self._own_loss(trace_back(op.inputs[0]).op, op.inputs[1], is_label=True)
        return self._follow_sum(op, depth) if op.type in _SUMS else None

    def _own_operations(self, op: Any) -> list[str]:
        """Return the name of an operation, or for the sum that ends a sigmoid cross entropy, that of its logarithm."""
        logarithms = [tensor.op.name for tensor in op.inputs if tensor.op.type == "Log1p"]
        return logarithms if op.type in _SUMS else [op.name]

    def _follow_product(self, op: Any, depth: int) -> SignedLoss | None:
        for factor, other in (op.inputs, reversed(op.inputs)):
            constant = constant_of(other)
            if constant is not None and ((constant > 0).all() or (constant < 0).all()):
                inner = self.follow(factor, depth - 1)
                is_one = (constant == 1).all()
                return inner and inner._replace(
                    is_negated=inner.is_negated != (constant < 0).all(), is_mean=inner.is_mean and bool(is_one)
                )
        for factor, other in (op.inputs, reversed(op.inputs)):
            if trace_back(other).op.type in _LOGARITHMS:
                return self._own_loss(trace_back(other).op, factor)
        for factor, other in (op.inputs, reversed(op.inputs)):
            if trace_back(other).dtype.is_bool:  # a mask
                inner = self.follow(factor, depth - 1)
                return inner and inner._replace(is_mean=False)
        return None

    def _own_loss(self, logarithm: Any, labels: tf.Tensor, is_label: bool = False) -> SignedLoss | None:
        """Return the loss labels * log(p), which is minus a cross entropy, if the labels depend on the data alone."""
        before = self._graph.before([labels])
        is_of_data = any(map(self._graph.is_source, before)) and not before & self._trainable
        is_of_model = bool(self._graph.before([logarithm]) & self._trainable)
        # a vector may be an advantage, which may be negative
        is_vector = labels.shape.rank is not None and labels.shape.rank < 2
        if is_of_data and is_of_model and (is_label or not is_vector or _is_of_numbers_of_classes(labels)):
            return SignedLoss(logarithm, None, True, False, [])
        return None

    def _follow_sum(self, op: Any, depth: int) -> SignedLoss | None:
        """Return the loss y * log(p) + (1 - y) * log(1 - p)."""
        found = self._follow_pair(op) or [self.follow(tensor, depth - 1) for tensor in op.inputs]
        if len(found) != 2 or any(loss is None or loss.loss is not None for loss in found):
            return None
        return found[0] if found[0].is_negated == found[1].is_negated else None  # type: ignore[union-attr]

    def _follow_pair(self, op: Any) -> list[SignedLoss | None]:
        """Return the losses in y * log(p) + (1 - y) * log(1 - p), whose two weights say that y is a label; otherwise empty."""
        products = [trace_back(tensor).op for tensor in op.inputs]
        if len(products) != 2 or any(product.type != "Mul" for product in products):
            return []
        pairs = [_logarithm_first(product) for product in products]
        first, second = (trace_back(labels) for _, labels in pairs)
        if not (_is_complement(first, second) or _is_complement(second, first)):
            return []
        return [self._own_loss(logarithm.op, labels, is_label=True) for logarithm, labels in pairs]


def _logarithm_first(product: Any) -> list[tf.Tensor]:
    """Return the factors of a product, the one that is a logarithm first."""
    return sorted(map(trace_back, product.inputs), key=lambda tensor: tensor.op.type not in _LOGARITHMS)


def _is_complement(first: tf.Tensor, second: tf.Tensor) -> bool:
    """Return whether the first tensor is 1 - the second one."""
    if first.op.type != "Sub" or trace_back(first.op.inputs[1]) is not second:
        return False
    one = constant_of(first.op.inputs[0])
    return one is not None and bool((one == 1).all())


def _is_log_softmax(tensor: tf.Tensor) -> bool:
    """Return whether a tensor is log(softmax(x)), perhaps with a small constant inside."""
    op = trace_back(tensor).op
    if op.type != "Log":
        return op.type == "LogSoftmax"
    inner = trace_back(op.inputs[0]).op
    if inner.type in _SUMS:
        inner = next((trace_back(t).op for t in inner.inputs if constant_of(t) is None), inner)
    return inner.type == "Softmax"


def _is_of_numbers_of_classes(labels: tf.Tensor) -> bool:
    """Return whether numbers were made of integers, perhaps subtracted from 1."""
    tensor = trace_back(labels)
    if tensor.op.type == "Sub" and constant_of(tensor.op.inputs[0]) is not None:
        tensor = trace_back(tensor.op.inputs[1])
    return tensor.dtype.is_integer or tensor.dtype.is_bool
