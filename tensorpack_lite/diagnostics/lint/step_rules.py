"""
Rules about the first step: T01 judges its cost, and T02, which `lint="deep"` adds, trains on one batch.

In:  a training after its first step.
Out: remarks. T02 puts all variables back.
"""

from __future__ import annotations

import math
import re
import time
from typing import Any, Iterator

import numpy as np

from ...compat import tfv1 as tf
from ...tfutils.sessinit import JustCurrentSession
from ...tfutils.varmanip import kept_variables
from ...utils import logger
from ..data_check.remarks import Remark
from .graph_view import remark_on
from .losses import CostTerms, find_terms
from .training import ExaminedTraining

NUM_STEPS = 200

_TOO_MUCH = 10.0  # T01: that of logits with a standard deviation of 4.5
_NEGLIGIBLE = 0.1
_LEARNT = 0.9  # T02: of the first cross entropy
_SMALL = 0.1  # a cross entropy that need not fall
_CHANGED = 1e-3
_DEPENDENT = re.compile("Random|Stateless|Multinomial|SquaredDifference|While|PyFunc")


def judged_terms(training: ExaminedTraining) -> Iterator[CostTerms]:
    """Yield the terms of a cost that `first_cost` can judge; nothing if variables are restored or it is another cost."""
    if type(training.session_init) is not JustCurrentSession:
        return
    terms = find_terms(training.graph, training.cost)
    if terms is None or not terms.is_mean or terms.loss.function.startswith("sigmoid"):
        return
    shape = terms.loss.logits.shape
    if shape.rank and shape.as_list()[-1] is not None:
        yield terms


def first_cost(training: ExaminedTraining, terms: CostTerms, cost: float) -> Iterator[Remark]:
    """
    T01: the first cross entropy is far above log(number of classes), that of a model that has learnt nothing.

    Why: the first logits are very large, because the inputs are not scaled or the initial weights are too large. Training
    begins with saturated probabilities, and may diverge.

    Does not report costs that are not the mean of one cross entropy plus small terms without data, variables that are
    restored, or training runs without a `ProgressBar` that shows the cost, because lint does not evaluate it.

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
    added = sum(training.trainer.sess.run(terms.others))  # after the update, so they are only about right
    if abs(added) > _NEGLIGIBLE * cost:
        return
    text = (
        f"the first cross entropy is {cost - added:.3g}, but that of {num_classes} equal probabilities is {usual:.3g}, so the "
        "first logits are very large."
    )
    advice = "Scale the inputs, e.g. to [-1, 1], or use smaller initial weights."
    yield remark_on("T01", terms.loss.op, text, advice)


def train_on_one_batch(training: ExaminedTraining) -> list[Remark]:
    """
    T02: one batch cannot be learnt in 200 steps; a variable does not change in them; or a sample's loss depends on another.

    Why: a model that cannot learn 16 samples by heart will not learn the data. A reshape that mixes samples trains without an
    error, and evaluates to other results with another batch size.

    Values are fed in place of the input, so no datapoint is taken from it, and all variables get their values back. The
    states of TensorFlow's own random operations move on; with exact resume, there are none.

    Does not report what cannot be decided: a cost that is not one reduced cross entropy, samples in a model with batch
    normalization or random numbers, and variables that no step updates (G01).

    Args:
        training: the training, after its first step and between two steps.

    Returns:
        The remarks. Empty, with a line in the log, if the input does not keep its first datapoint.

    Source: neural-net-checklist; lightning-bolts' BatchGradientVerification; torcheck.
    """
    feeds = _feeds(training)
    if not feeds or training.targets == [] or training.trainer.train_op is None:
        reason = "the input has no batch that Python has read, or there is no train_op"
        logger.info(f"Lint: 'deep' is not possible: {reason}.")
        return []
    logger.info(f"Lint: {NUM_STEPS} steps on one batch; then all variables are put back ...")
    began = time.perf_counter()
    session = training.trainer.sess
    with kept_variables(session):
        remarks = list(_examine(training, session, feeds))
    logger.info(f"Lint: done in {time.perf_counter() - began:.1f} s.")
    return remarks


def _examine(training: ExaminedTraining, session: tf.Session, feeds: dict[tf.Tensor, np.ndarray]) -> Iterator[Remark]:
    terms = find_terms(training.graph, training.cost)
    if terms is not None and _is_independent(training, terms):
        yield from _mixed_samples(session, feeds, terms)
    expected = [
        variable
        for variable in tf.trainable_variables()
        if any(op.name in training.step for op in training.updates(variable))
    ]
    fetches = [expected, [] if terms is None else terms.loss.op.outputs[0]]
    initial = session.run(fetches, feeds)
    for _ in range(NUM_STEPS):
        session.run(training.trainer.train_op, feeds)
    final = session.run(fetches, feeds)
    same = [var for var, old, new in zip(expected, initial[0], final[0]) if np.array_equal(old, new)]
    if same:
        text = f"it did not change in {NUM_STEPS} steps on one batch."
        advice = "Look for a gradient that is always 0: a dead activation, a comparison, or a learning rate of 0."
        yield remark_on("T02", same, text, advice)
    if terms is not None:
        first, last = float(np.mean(initial[1])), float(np.mean(final[1]))
        if first > _SMALL and not last < _LEARNT * first:
            text = f"one batch cannot be learnt: the cross entropy is {first:.3g} before and {last:.3g} after {NUM_STEPS} steps."
            advice = "Look at the learning rate, at the labels, and at the scale of the inputs."
            yield remark_on("T02", terms.loss.op, text, advice)


def _mixed_samples(session: tf.Session, feeds: dict[tf.Tensor, np.ndarray], terms: CostTerms) -> Iterator[Remark]:
    losses = session.run(terms.loss.op.outputs[0], feeds)
    num = {len(array) for array in feeds.values() if array.ndim}
    if len(num) != 1 or losses.shape[:1] != tuple(num) or len(losses) < 2:
        return
    changed = {key: np.concatenate([array[-1:], array[1:]]) for key, array in feeds.items() if array.ndim}
    changed_losses = session.run(terms.loss.op.outputs[0], {**feeds, **changed})
    difference = np.abs(changed_losses[1:] - losses[1:])
    if (difference > _CHANGED * (1 + np.abs(losses[1:]))).any():
        text = "the losses of the other samples change when the first one is replaced."
        advice = "Look for a reshape, transposition or reduction that mixes samples."
        yield remark_on("T02", terms.loss.op, text, advice)


def _is_independent(training: ExaminedTraining, terms: CostTerms) -> bool:
    """Return whether the loss has no random numbers and no moments of the batch."""
    for op in training.graph.in_order(training.graph.before([terms.loss.op])):
        if _DEPENDENT.search(op.type):
            return False
        if op.type.startswith("FusedBatchNorm") and op.get_attr("is_training"):
            return False
    return not tf.get_collection(tf.GraphKeys.UPDATE_OPS)


def _feeds(training: ExaminedTraining) -> dict[Any, np.ndarray]:
    """Return the first datapoint for the inputs of all towers; empty if it is not known or does not fit."""
    if len(training.sources) != 1 or not training.towers:
        return {}
    datapoint = training.sources[0].flow.first_datapoint()
    feeds = {}
    for tower in training.towers:
        for spec, tensor in zip(training.signature, tower.inputs):
            array = datapoint.get(spec.name)
            if array is None or array.ndim != tensor.shape.rank:
                return {}
            size = tensor.shape.as_list()[0] if array.ndim else None
            fitting = array if size is None else np.resize(array, (size, *array.shape[1:]))
            if not tensor.shape.is_compatible_with(fitting.shape):
                return {}
            feeds[tensor] = fitting
    return feeds
