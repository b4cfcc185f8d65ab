"""Rules about batch normalization and dropout: what training must update, and what inference must not do."""

from __future__ import annotations

import re
from typing import Any, Iterator

from ...compat import tfv1 as tf
from ...tfutils.sessinit import JustCurrentSession
from ...utils.remarks import Remark, list_names
from .graph_view import ASSIGNS, operation, place_of
from .training import Training, elements_in

__all__ = ["averages_without_update", "training_mode_in_inference", "updates_that_do_not_run"]

_AVERAGE = re.compile(r"(^|/)(moving_mean|moving_variance|mean/EMA|variance/EMA)(_\d+)?$")
_UNIFORM = ("RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2")
_ARITHMETIC = ("Add", "AddV2", "Mul", "Sub", "Identity", "Cast")


def updates_that_do_not_run(training: Training) -> Iterator[Remark]:
    """
    G05: operations in `UPDATE_OPS` that nothing runs.

    Why: the moving averages of batch normalization keep their initial values, and validation is as bad as chance.

    Source: tensorpack issues 1202, 1417.
    """
    if not training.targets:
        return
    updates = [operation(one) for one in tf.get_collection(tf.GraphKeys.UPDATE_OPS)]
    fetched = [element for cb in training.callbacks for element in elements_in(vars(cb))]
    run = training.step | training.graph.before(fetched)
    idle = [op for op in updates if op.name not in run]
    if idle:
        yield Remark(
            "G05",
            list_names([op.name for op in idle]),
            f"nothing runs {len(idle)} of the {len(updates)} operations in UPDATE_OPS.",
            "Add the callback RunUpdateOps(), which is one of the default extra_callbacks.",
            place_of(idle[0]),
        )


def averages_without_update(training: Training) -> Iterator[Remark]:
    """
    G05: batch normalization uses moving averages in training, and nothing updates or restores them.

    Why: the averages stay at 0 and 1, so the layer does not normalize. `tf.layers.batch_normalization` does this by default:
    its `training` is False.

    Silent if values are restored: a pretrained model may be frozen.

    Source: tensorpack issues 1202, 1417.
    """
    if type(training.session_init) is not JustCurrentSession:
        return
    idle = []
    for variable in tf.global_variables():
        if not _AVERAGE.search(variable.op.name) or training.graph.updates(variable):
            continue
        if any(op.name in training.step for op in training.graph.reads(variable)):
            idle.append(variable)
    if idle:
        yield Remark(
            "G05",
            list_names([variable.op.name for variable in idle]),
            "batch normalization in training uses moving averages that are neither updated nor restored.",
            "Pass training=True in training towers, e.g. training=get_current_tower_context().is_training.",
            place_of(idle[0]),
        )


def training_mode_in_inference(training: Training) -> Iterator[Remark]:
    """
    G06: dropout, or batch normalization with the moments of the batch, in what an InferenceRunner evaluates.

    Why: the results of validation are random and worse than those of the model. The layer does not know that this tower is
    not for training: `tf.nn.dropout` always drops, and other layers need an argument.

    Source: tensorpack issues 246, 472, 718.
    """
    fetched = [tensor for runner in training.runners for tensor in runner.fetched]
    tower_func = training.trainer.tower_func
    if not fetched or tower_func is None:
        return
    scopes = tuple(f"{tower.ns_name}/" for tower in tower_func.towers.inference() if tower.ns_name)
    graph = training.graph
    evaluated = (op for op in graph.in_order(graph.before(fetched)) if op.name.startswith(scopes))
    dropping = [op for op in evaluated if _drops(training, op)]
    if dropping:
        in_training = any(_drops(training, graph.operations[name]) for name in training.step)
        yield Remark(
            "G06",
            list_names([op.name for op in dropping]),
            f"dropout is active in inference{'' if in_training else ', and not in training'}.",
            "Use models.Dropout, or test get_current_tower_context().is_training.",
            place_of(dropping[0]),
        )
    in_towers = (op for op in graph.operations.values() if op.name.startswith(scopes))
    changed = list(dict.fromkeys(name for op in in_towers for name in _averages(op)))
    if changed:
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        yield Remark(
            "G06",
            list_names(changed),
            "batch normalization in inference normalizes by the batch, and not by these moving averages.",
            "Pass training=get_current_tower_context().is_training, or nothing to models.BatchNorm.",
            place_of(variables[changed[0]]) if changed[0] in variables else "",
        )


def _drops(training: Training, op: Any) -> bool:
    """Return whether an operation compares uniform noise with a rate, and the result switches values off."""
    if op.type not in ("GreaterEqual", "Floor") or not any(_is_noise(tensor.op) for tensor in op.inputs):
        return False
    users = training.graph.consumers(op)
    users += [
        user for cast in users if cast.type in ("Cast", "Identity") for user in training.graph.consumers(cast)
    ]
    return any(
        user.type in ("Mul", "Select", "SelectV2") and user.outputs[0].dtype.base_dtype.is_floating
        for user in users
    )


def _is_noise(op: Any, depth: int = 6) -> bool:
    if op.type in _UNIFORM:
        return True
    return (
        depth > 0 and op.type in _ARITHMETIC and any(_is_noise(tensor.op, depth - 1) for tensor in op.inputs)
    )


def _averages(op: Any) -> list[str]:
    """Return the name of the moving average that an operation changes, in a list."""
    if not ASSIGNS.match(op.type) or not op.inputs:
        return []
    name = op.inputs[0].op.name
    return [name] if _AVERAGE.search(name) else []
