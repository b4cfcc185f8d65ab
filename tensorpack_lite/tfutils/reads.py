"""
Reads of variables that the same step updates: which value do they see?

TensorFlow runs a read and an update of one step in any order, unless one waits for the other. A gradient needs no help:
the update needs it. What is read for its own sake, the step counter or a parameter's summary, does.
"""

from __future__ import annotations

import re
from typing import Any

from ..compat import tfv1 as tf
from ..compat.private import add_control_inputs, inside_control_flow, nothing_surrounds, read_made_with
from ..utils.naming import READ_BEFORE_UPDATE_KEY

__all__ = ["let_updates_wait", "plain_reads", "read_before_update", "shared_read"]

# what optimizers do; not plain assignments, which also set the initial value and restore checkpoints
_UPDATE = re.compile(r"Resource(Sparse)?Apply|ResourceScatter|Assign(Add|Sub)VariableOp$")


def plain_reads(variable: Any) -> list[Any]:
    """
    List what an assignment to a variable must wait for, so that every read in the same run sees the old value.

    A read that waits for something else, or stands inside a condition or a loop, is left out: to wait for it could mean
    to run what was not asked for.
    """
    resource = getattr(variable, "handle", None)
    if resource is not None:
        reads = [op for op in resource.consumers() if op.type == "ReadVariableOp"]
    else:
        # A read of a ref variable is the variable's own memory: what counts is when its consumers have run.
        reads = [op for op in variable.value().consumers() if _depends_only_on_constants(op, variable)]
    return [op for op in reads if not op.control_inputs and not inside_control_flow(op)]


def shared_read(variable: Any) -> Any:
    """
    Give a variable's value by the read that was made with it: one for all layers and towers, as a ref variable has.

    Each use of a resource variable makes an operation that reads it. In a large model on many devices these are thousands.

    Args:
        variable: what `tf.get_variable` returned.

    Returns:
        A tensor. The variable itself, to be read anew by whoever uses it, where a shared read could be wrong: under control
        dependencies, inside a condition or a loop, in a function's graph. What is no resource variable is returned as it is.

    Note: gradients with respect to the variable pass through it.
    """
    handle = getattr(variable, "handle", None)
    if handle is None:
        return variable
    graph = tf.get_default_graph()
    if handle.graph is not graph or not nothing_surrounds(graph):
        return variable
    return read_made_with(variable)


def read_before_update(variable: Any) -> Any:
    """
    Give a variable's value as it is before the step's update, in whatever order the step runs.

    It is the model's own read, if there is one, so that a step has no operation more. `let_updates_wait` does the rest,
    when the whole graph is there.

    Args:
        variable: a resource variable. Another is returned as it is: its memory is read when the consumers run.

    Returns:
        A tensor.
    """
    if getattr(variable, "handle", None) is None:
        return variable
    # the first one was made together with the variable, and may be used by nobody
    reads = plain_reads(variable)
    value = reads[-1].outputs[0] if reads else tf.convert_to_tensor(variable)
    tf.add_to_collection(READ_BEFORE_UPDATE_KEY, value)
    return value


def let_updates_wait() -> None:
    """
    Let the updates of variables wait for what `read_before_update` gave.

    These are optimizers' operations and additions. Plain assignments are not among them, nor are updates inside a
    condition or a loop, where `AccumGradOptimizer` has its own.
    """
    reads = {value.op.name: value.op for value in tf.get_collection(READ_BEFORE_UPDATE_KEY)}
    for read in reads.values():
        if read.control_inputs or inside_control_flow(read):
            continue
        for update in read.inputs[0].consumers():
            if _UPDATE.match(update.type) and not inside_control_flow(update):
                add_control_inputs(update, [read])


def _depends_only_on_constants(op: Any, variable: Any) -> bool:
    """Tell whether an operation on a ref variable needs nothing but its value and constants, no feed for instance."""
    value = variable.value()
    return all(tensor is value or tensor.op.type == "Const" for tensor in op.inputs)
