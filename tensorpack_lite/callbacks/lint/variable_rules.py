"""Rules about variables of single towers, and about state that a checkpoint does not have."""

from __future__ import annotations

from typing import Iterator

from ...compat import tfv1 as tf
from ...tfutils.random import find_stateful_random_ops
from ...utils.remarks import Remark
from .graph_view import place_of
from .training import Training

__all__ = ["random_state_not_saved", "variable_of_another_tower"]


def variable_of_another_tower(training: Training) -> Iterator[Remark]:
    """
    G12: training updates a variable of `tf.Variable`, and the tower of an InferenceRunner or predictor has its own.

    Why: `tf.Variable` creates a variable in each tower. Validation reads one that keeps its initial value, e.g. a mean over
    batches that training has computed for another variable.

    Trainable variables of this kind raise an error already when the tower is built.

    Source: tensorpack issues 1181, 1234.
    """
    tower_func = training.trainer.tower_func
    if tower_func is None:
        return
    scopes = {tower.ns_name for tower in tower_func.towers.inference()} - {""}
    trained = training.towers[0].ns_name if training.towers else ""
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    for name, variable in variables.items():
        scope, _, rest = name.partition("/")
        original = variables.get(f"{trained}/{rest}" if trained else rest)
        if scope not in scopes or original is None or training.graph.updates(variable):
            continue
        if training.graph.updates(original) and training.graph.reads(variable):
            yield Remark(
                "G12",
                name,
                f"training updates {original.op.name}, but tower '{scope}' reads this variable, which keeps its initial value.",
                "Create it with tf.get_variable, which shares it between towers, instead of tf.Variable.",
                place_of(variable),
            )


def random_state_not_saved(training: Training) -> Iterator[Remark]:
    """
    G13: with exact resume, a step runs a random operation whose state is not in the checkpoint.

    Why: after a resumption, it draws other numbers than an uninterrupted training would, so the results differ.

    Source: docs/save_resume.md#random.
    """
    train_op = training.trainer.train_op
    if not training.trainer.exact or train_op is None:
        return
    operations = training.graph.operations
    for name in find_stateful_random_ops(train_op):
        outer = name
        while outer not in operations:  # an operation in a function
            outer = outer.rpartition("/")[0]
        yield Remark(
            "G13",
            name,
            "exact resume is on, but the state of this random operation is not saved.",
            "Use the function of the same name in tensorpack_lite.tfutils.random.",
            place_of(operations[outer]),
        )
