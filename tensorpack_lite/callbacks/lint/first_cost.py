"""Rule T01: the first cost of a training."""

from __future__ import annotations

import math
from typing import Iterator

from ...tfutils.sessinit import JustCurrentSession
from ...utils.remarks import Remark
from .cost_terms import CostTerms, find_terms
from .graph_view import place_of
from .training import Training

__all__ = ["first_cost", "judged_terms"]

_TOO_MUCH = 10.0  # that of logits with a standard deviation of 4.5
_NEGLIGIBLE = 0.1


def judged_terms(training: Training) -> Iterator[CostTerms]:
    """Yield the terms of a cost that `first_cost` can judge; nothing if variables are restored or it is another cost."""
    if training.cost is None or type(training.session_init) is not JustCurrentSession:
        return
    terms = find_terms(training.graph, training.cost)
    if terms is None or not terms.is_mean or terms.loss.function.startswith("sigmoid"):
        return
    shape = terms.loss.logits.shape
    if shape.rank and shape.as_list()[-1] is not None:
        yield terms


def first_cost(training: Training, terms: CostTerms, cost: float) -> Iterator[Remark]:
    """
    T01: the first cross entropy is far above log(number of classes), that of a model that has learnt nothing.

    Why: the first logits are very large, because the inputs are not scaled or the initial weights are too large. Training
    begins with saturated probabilities, and may diverge.

    Silent about costs that are not the mean of one cross entropy plus small terms without data, about variables that are
    restored, and trainings without a `ProgressBar` that shows the cost, because lint does not evaluate it.

    Args:
        training: the training, after its first step.
        terms: the terms of its cost, from `judged_terms`.
        cost: the cost of that step.

    Source: neural-net-checklist, "the first loss is -log(1 / classes)".
    """
    num_classes = terms.loss.logits.shape.as_list()[-1]
    usual = math.log(num_classes)
    if not cost > usual + _TOO_MUCH:
        return
    others = sum(training.trainer.sess.run(terms.others))  # after the update, so they are only about right
    if abs(others) > _NEGLIGIBLE * cost:
        return
    yield Remark(
        "T01",
        terms.loss.op.name,
        f"the first cross entropy is {cost - others:.3g}, but that of {num_classes} equal probabilities is {usual:.3g}, so the "
        "first logits are very large.",
        "Scale the inputs, e.g. to [-1, 1], or use smaller initial weights.",
        place_of(terms.loss.op),
    )
