"""Updates of variables that are omitted from a step whose losses or gradients are not finite."""

from __future__ import annotations

import re
from typing import Sequence

from ..compat import tfv1 as tf
from ..compat.private import add_control_inputs, inside_control_flow, inside_loop_or_xla, update_input
from ..utils.argtools import graph_memoized
from .dependency import operations_needed

_OF_OPTIMIZER = re.compile(r"(Resource)?(Sparse)?Apply")
_UPDATE = re.compile(r"Assign|Apply|Scatter")
# operations that add to a variable, or set it -> the number of the input that a run can do without
_CHANGES = {
    "AssignAdd": 1,
    "AssignSub": 1,
    "AssignAddVariableOp": 1,
    "AssignSubVariableOp": 1,
    "ResourceApplyGradientDescent": 2,
}
_SETTINGS = ("Assign", "AssignVariableOp")


def applied_gradients(train_op: tf.Operation | tf.Tensor) -> dict[str, tf.Tensor]:
    """
    Find the gradients that optimizers apply in a step, after their reduction over towers and ranks and after all
    processors. Of several towers with copies of the variables, only the first one's are returned.

    Args:
        train_op: the operation that a step runs.

    Returns:
        `{name of the variable: gradient}`. Empty if an optimizer applies gradients under a condition, as
        `DynamicLossScaleOptimizer` and `AccumGradOptimizer` do. Optimizers written in Python are omitted.
    """
    copies = {variable.op.name for variable in tf.local_variables()}
    found: dict[str, tf.Tensor] = {}
    for op in operations_needed([train_op]):
        if not _OF_OPTIMIZER.match(op.type):
            continue
        if inside_control_flow(op):
            return {}
        arguments = [argument.name for argument in op.op_def.input_arg]
        name = op.inputs[0].op.name
        gradient = next((argument for argument in ("grad", "delta") if argument in arguments), None)
        if gradient is not None and name not in copies:
            found[name] = op.inputs[arguments.index(gradient)]
    return found


def squared_norms(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """
    Return the squared L2 norm of each gradient, `[N]`, float32: one operation per gradient, and a few more.

    Args:
        gradients: dense tensors of a floating-point type, or the values of sparse ones; at least one.

    Note: it is infinite if a norm is above 1.8e19.
    """
    halves = [tf.nn.l2_loss(_at_least_float32(gradient)) for gradient in gradients]
    return 2 * tf.stack([half if half.dtype == tf.float32 else tf.cast(half, tf.float32) for half in halves])


def let_updates_pass_if(condition: tf.Tensor, targets: Sequence[tf.Operation | tf.Tensor]) -> list[tf.Operation]:
    """
    Leave out all updates of variables in runs in which a condition is false.

    The updates wait for the condition. Where it is false, TensorFlow does not execute them, as if they were in the
    other branch of a `tf.cond`. Updates that the condition itself depends on are not changed.

    Args:
        condition: a scalar bool, outside of `tf.cond` and `tf.while_loop`.
        targets: operations; they and whatever they depend on are searched for updates.

    Returns:
        The updates that wait.

    Note: the value of a tensor that depends on such an update is an empty array in these runs.
    """
    before = {op.name for op in operations_needed([condition])}
    updates = [
        op
        for op in operations_needed(targets)
        if _UPDATE.search(op.type) and op.name not in before and not inside_loop_or_xla(op)
    ]
    with tf.name_scope("updates_pass"), tf.control_dependencies(None), tf.device("/cpu:0"):
        switch = tf.raw_ops.Switch(data=condition, pred=condition)[1]
        passes = tf.identity(switch)
    _gates().add(switch.op.name)
    for update in updates:
        add_control_inputs(update, [passes.op])
    return updates


def change_only_if(condition: tf.Tensor, targets: Sequence[tf.Operation | tf.Tensor]) -> None:
    """
    Let additions and assignments leave their variables as they are in runs in which a condition is false.

    Unlike with `let_updates_pass_if`, they are executed, so tensors that depend on them have values. Updates that the condition
    itself depends on are not changed, nor are those inside a condition or loop, or of other kinds.

    Args:
        condition: a scalar bool, outside of `tf.cond` and `tf.while_loop`.
        targets: operations; they and whatever they depend on are searched for updates.
    """
    before = {op.name for op in operations_needed([condition])}
    for op in operations_needed(targets):
        index = 1 if op.type in _SETTINGS else _CHANGES.get(op.type)
        if index is None or op.name in before or inside_control_flow(op):
            continue
        value = op.inputs[index]
        with tf.name_scope("change_only_if"), tf.control_dependencies(None), tf.device(op.device or None):
            old = _read(op, value) if op.type in _SETTINGS else tf.zeros_like(value)
            update_input(op, index, tf.where(condition, value, old))


def _read(assignment: tf.Operation, like: tf.Tensor) -> tf.Tensor:
    """Return the value of the variable that an operation sets."""
    if assignment.type == "Assign":
        return tf.identity(assignment.inputs[0])
    return tf.raw_ops.ReadVariableOp(resource=assignment.inputs[0], dtype=like.dtype)


def is_gate(op: tf.Operation) -> bool:
    """Return whether an operation is the switch for which updates wait. Whoever created it handles runs without them."""
    with op.graph.as_default():
        return op.name in _gates()


@graph_memoized
def _gates() -> set[str]:
    """Return the names of the switches of `let_updates_pass_if` in the current graph."""
    return set()


def _at_least_float32(tensor: tf.Tensor) -> tf.Tensor:
    return tf.cast(tensor, tf.float32) if tensor.dtype.size < tf.float32.size else tensor
