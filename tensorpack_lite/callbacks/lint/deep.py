"""
Rule T02, which `lint="deep"` adds: trains on one batch for 200 steps, and then puts all variables back.

In:  a training after its first step.
Out: remarks.
"""

from __future__ import annotations

import time
from typing import Any, Iterator

import numpy as np

from ...compat import tfv1 as tf
from ...tfutils.varmanip import SessionUpdate
from ...utils import logger
from ...utils.remarks import Remark, list_names
from .cost_terms import CostTerms, find_terms
from .graph_view import place_of
from .training import Training

__all__ = ["NUM_STEPS", "train_on_one_batch"]

NUM_STEPS = 200

_LEARNT = 0.9  # of the first cross entropy
_SMALL = 0.1  # a cross entropy that need not fall
_CHANGED = 1e-3


def train_on_one_batch(training: Training) -> list[Remark]:
    """
    T02: one batch cannot be learnt in 200 steps; a variable does not change in them; or a sample's loss depends on another.

    Why: a model that cannot learn 16 samples by heart will not learn the data. A reshape that mixes samples trains without an
    error, and evaluates to other results with another batch size.

    Values are fed in place of the input, so no datapoint is taken from it, and all variables get their values back. The
    states of TensorFlow's own random operations move on; with exact resume, there are none.

    Silent about what cannot be decided: a cost that is not one reduced cross entropy, samples in a model with batch
    normalization or random numbers, and variables that no step updates (G01).

    Args:
        training: the training, after its first step and between two steps.

    Returns:
        The remarks. Empty, with a line in the log, if the input does not keep its first datapoint.

    Source: neural-net-checklist; lightning-bolts' BatchGradientVerification; torcheck.
    """
    feeds = _feeds(training)
    if not feeds or training.targets == [] or training.trainer.train_op is None:
        logger.info(
            "Lint: 'deep' is not possible: the input has no batch that Python has read, or there is no train_op."
        )
        return []
    logger.info(f"Lint: {NUM_STEPS} steps on one batch; then all variables are put back ...")
    began = time.perf_counter()
    session = training.trainer.sess
    variables = [*tf.global_variables(), *tf.local_variables()]
    before = dict(zip([variable.name for variable in variables], session.run(variables)))
    try:
        remarks = list(_examine(training, session, feeds))
    finally:
        SessionUpdate(session, variables).update(before)
    logger.info(f"Lint: done in {time.perf_counter() - began:.1f} s.")
    return remarks


def _examine(training: Training, session: tf.Session, feeds: dict[tf.Tensor, np.ndarray]) -> Iterator[Remark]:
    terms = None if training.cost is None else find_terms(training.graph, training.cost)
    if terms is not None and _is_independent(training, terms):
        yield from _mixed_samples(session, feeds, terms)
    expected = [
        variable
        for variable in tf.trainable_variables()
        if any(op.name in training.step for op in training.graph.updates(variable))
    ]
    losses = None if terms is None else terms.loss.op.outputs[0]
    initial = session.run([expected, [] if losses is None else losses], feeds)
    for _ in range(NUM_STEPS):
        session.run(training.trainer.train_op, feeds)
    final = session.run([expected, [] if losses is None else losses], feeds)
    same = [
        variable for variable, old, new in zip(expected, initial[0], final[0]) if np.array_equal(old, new)
    ]
    if same:
        yield Remark(
            "T02",
            list_names([variable.op.name for variable in same]),
            f"it did not change in {NUM_STEPS} steps on one batch.",
            "Look for a gradient that is always 0: a dead activation, a comparison, or a learning rate of 0.",
            place_of(same[0]),
        )
    if terms is not None:
        first, last = float(np.mean(initial[1])), float(np.mean(final[1]))
        if first > _SMALL and not last < _LEARNT * first:
            yield Remark(
                "T02",
                terms.loss.op.name,
                f"one batch cannot be learnt: the cross entropy is {first:.3g} before and {last:.3g} after {NUM_STEPS} steps.",
                "Look at the learning rate, at the labels, and at the scale of the inputs.",
                place_of(terms.loss.op),
            )


def _mixed_samples(
    session: tf.Session, feeds: dict[tf.Tensor, np.ndarray], terms: CostTerms
) -> Iterator[Remark]:
    losses = session.run(terms.loss.op.outputs[0], feeds)
    num = {len(array) for array in feeds.values() if array.ndim}
    if len(num) != 1 or losses.shape[:1] != tuple(num) or len(losses) < 2:
        return
    changed = {tensor: _with_first_replaced(array) for tensor, array in feeds.items()}
    others = session.run(terms.loss.op.outputs[0], changed)
    difference = np.abs(others[1:] - losses[1:])
    if (difference > _CHANGED * (1 + np.abs(losses[1:]))).any():
        yield Remark(
            "T02",
            terms.loss.op.name,
            "the losses of the other samples change when the first one is replaced.",
            "Look for a reshape, transposition or reduction that mixes samples.",
            place_of(terms.loss.op),
        )


def _with_first_replaced(array: np.ndarray) -> np.ndarray:
    """Return a copy of a batch whose first sample is the last one."""
    replaced = array.copy()
    replaced[0] = array[-1]
    return replaced


def _is_independent(training: Training, terms: CostTerms) -> bool:
    """Return whether the loss has no random numbers and no moments of the batch."""
    for op in training.graph.in_order(training.graph.before([terms.loss.op])):
        if any(
            word in op.type
            for word in ("Random", "Stateless", "Multinomial", "SquaredDifference", "While", "PyFunc")
        ):
            return False
        if op.type.startswith("FusedBatchNorm") and op.get_attr("is_training"):
            return False
    return not tf.get_collection(tf.GraphKeys.UPDATE_OPS)


def _feeds(training: Training) -> dict[Any, np.ndarray]:
    """Return the first datapoint for the inputs of all towers; empty if it is not known or does not fit."""
    tower_func = training.trainer.tower_func
    if tower_func is None or len(training.sources) != 1 or not training.towers:
        return {}
    datapoint = training.sources[0].first_datapoint()
    feeds = {}
    for tower in training.towers:
        for spec, tensor in zip(tower_func.input_signature, tower.inputs):
            array = datapoint.get(spec.name)
            if array is None or array.ndim != tensor.shape.rank:
                return {}
            size = tensor.shape.as_list()[0] if array.ndim else None
            fitting = array if size is None else np.resize(array, (size, *array.shape[1:]))
            if not tensor.shape.is_compatible_with(fitting.shape):
                return {}
            feeds[tensor] = fitting
    return feeds
