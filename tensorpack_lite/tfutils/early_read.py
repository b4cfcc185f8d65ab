"""
Ordering of the reads and updates of a variable within one step.

TensorFlow runs a read and an update in any order unless one depends on the other. The update depends on the reads that
gradients are computed from, but not on other reads, such as those of the step counter or of a parameter's summary.
"""

from __future__ import annotations

import re

from ..compat import tfv1 as tf
from ..compat.private import add_control_inputs, inside_control_flow, nothing_surrounds
from ..compat.tapes import read_made_with
from ..utils.naming import READ_BEFORE_UPDATE_KEY

# the operations of optimizers; not plain assignments, which also set the initial value and restore checkpoints
_UPDATE = re.compile(r"Resource(Sparse)?Apply|ResourceScatter|Assign(Add|Sub)VariableOp$")


def plain_reads(variable: tf.Variable) -> list[tf.Operation]:
    """
    List the operations an assignment must wait for, so that all reads of the variable in the same run see the
    old value.

    Reads with control inputs or inside a condition or loop are omitted, because waiting for them could run operations
    that were not requested.
    """
    resource = getattr(variable, "handle", None)
    if resource is not None:
        reads = [op for op in resource.consumers() if op.type == "ReadVariableOp"]
    else:
        # A read of a ref variable returns its memory, so the assignment must wait for the consumers of the read.
        reads = [op for op in variable.value().consumers() if _depends_only_on_constants(op, variable)]
    return [op for op in reads if not op.control_inputs and not inside_control_flow(op)]


def shared_read(variable: tf.Variable) -> tf.Tensor:
    """
    Return a variable's value from the read that was created with the variable, so that all layers and towers share it.

    Otherwise each use of a resource variable creates an operation that reads it: thousands in a large model
    on many devices.

    Args:
        variable: a result of `tf.get_variable`.

    Returns:
        A tensor. The variable itself if it is not a resource variable, or where sharing could return a wrong
        value: under control dependencies, inside a condition or loop, or in the graph of a function.

    Note: gradients with respect to the variable pass through the shared read.
    """
    handle = getattr(variable, "handle", None)
    if handle is None:
        return variable
    graph = tf.get_default_graph()
    if handle.graph is not graph or not nothing_surrounds(graph):
        return variable
    return read_made_with(variable)


def read_before_update(variable: tf.Variable) -> tf.Tensor:
    """
    Return a variable's value from before the step's update.

    The result is an existing read of the model if possible, so that the step needs no additional operation.
    When the whole graph is built, `let_updates_wait` adds the control dependencies.

    Args:
        variable: a resource variable. Other variables are returned unchanged; their memory is read when the
            consumers run.

    Returns:
        A tensor.
    """
    if getattr(variable, "handle", None) is None:
        return variable
    # prefer the last read: the first one was created with the variable, and the model may not use it
    reads = plain_reads(variable)
    value = reads[-1].outputs[0] if reads else tf.convert_to_tensor(variable)
    tf.add_to_collection(READ_BEFORE_UPDATE_KEY, value)
    return value


def let_updates_wait() -> None:
    """
    Make the updates of variables wait for the reads that `read_before_update` returned.

    Updates are the operations of optimizers, and additions. Plain assignments and updates inside a condition
    or loop, such as those of `AccumGradOptimizer`, do not wait.
    """
    reads = {value.op.name: value.op for value in tf.get_collection(READ_BEFORE_UPDATE_KEY)}
    for read in reads.values():
        if read.control_inputs or inside_control_flow(read):
            continue
        for update in read.inputs[0].consumers():
            if _UPDATE.match(update.type) and not inside_control_flow(update):
                add_control_inputs(update, [read])


def _depends_only_on_constants(op: tf.Operation, variable: tf.Variable) -> bool:
    """Return whether an operation depends only on the value of a ref variable and constants, and not on a feed."""
    value = variable.value()
    return all(tensor is value or tensor.op.type == "Const" for tensor in op.inputs)
