"""Rule T01: the first cost of a training."""

from __future__ import annotations

import math
from typing import Iterator

from ...tfutils.sessinit import JustCurrentSession
from ...utils.remarks import Remark
from .cost_terms import find_terms
from .graph_view import place_of
from .training import Training

__all__ = ["first_cost", "may_judge_cost"]

_TOO_MUCH = 10.0  # that of logits with a standard deviation of 4.5
_NEGLIGIBLE = 0.1


def may_judge_cost(training: Training) -> bool:
    """Return whether `first_cost` is worth asking for the cost of the first step."""
    return training.cost is not None and type(training.session_init) is JustCurrentSession


def first_cost(training: Training, cost: float) -> Iterator[Remark]:
    """
    T01: the first cross entropy is far above log(number of classes), that of a model that has learnt nothing.

    Why: the first logits are very large, because the inputs are not scaled or the initial weights are too large. Training
    begins with saturated probabilities, and may diverge.

    Silent about costs that are not the mean of one cross entropy plus small terms without data, about variables that are
    restored, and trainings without a `ProgressBar` that shows the cost, because lint does not evaluate it.

    Args:
        training: the training, after its first step.
        cost: the cost of that step.

    Source: neural-net-checklist, "the first loss is -log(1 / classes)".
    """
    if training.cost is None or not cost > _TOO_MUCH:
        return
    terms = find_terms(training.graph, training.cost)
    if terms is None or not terms.is_mean or terms.loss.function.startswith("sigmoid"):
        return
    shape = terms.loss.logits.shape
    num_classes = shape.as_list()[-1] if shape.rank else None
    if num_classes is None or not cost > math.log(num_classes) + _TOO_MUCH:
        return
    others = sum(training.trainer.sess.run(terms.others))  # after the update, so they are only about right
    if abs(others) > _NEGLIGIBLE * cost:
        return
    usual = math.log(num_classes)
    yield Remark(
        "T01",
        terms.loss.op.name,
        f"the first cross entropy is {cost - others:.3g}, but that of {num_classes} equal probabilities is {usual:.3g}, so the "
        "first logits are very large.",
        "Scale the inputs, e.g. to [-1, 1], or use smaller initial weights.",
        place_of(terms.loss.op),
    )
