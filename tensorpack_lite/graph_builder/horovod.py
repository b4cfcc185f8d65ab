"""
All-reduce of gradients and broadcast of variables between processes, with Horovod.

Horovod matches the operations of the processes by name, so names must not depend on the rest of a process's graph.
"""

from __future__ import annotations

from types import ModuleType
from typing import Sequence

from ..compat import tfv1 as tf
from ..tfutils.early_read import shared_read
from ..tfutils.gradproc import GradVars
from ..tfutils.scope_utils import under_name_scope
from ..utils import logger

# Horovod supports these dtypes; other numbers are sent as bytes.
_SUPPORTED = {
    tf.bool, tf.float16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16,
}  # fmt: skip
_BYTES = {tf.bfloat16, tf.complex64, tf.complex128, tf.uint32, tf.uint64}


@under_name_scope("AllReduce")
def allreduce_horovod_grads(
    grads: GradVars, hvd: ModuleType, average: bool = True, compression: object = None
) -> GradVars:
    """
    Reduce the gradients of all processes; each process receives the same result, bit for bit.

    Args:
        grads: pairs of gradient and variable, with the same variables in the same order in each process. If a
            gradient is an `IndexedSlices`, the reduced one has the slices of all processes.
        hvd: the module `horovod.tensorflow`, after its `init`.
        average: whether to compute the mean instead of the sum.
        compression: a member of `hvd.Compression`, or None.

    Returns:
        Pairs of reduced gradient and variable. Those of a single process are unchanged.
    """
    if hvd.size() == 1:
        return grads
    options = {"op": hvd.Average if average else hvd.Sum}
    if compression is not None:
        options["compression"] = compression
    return [(hvd.allreduce(grad, **options), var) for grad, var in grads]


@under_name_scope("BroadcastVariables")
def broadcast_horovod_variables(variables: Sequence[tf.Variable], hvd: ModuleType) -> tf.Operation:
    """
    Set variables to the values of rank 0, bit for bit.

    Args:
        variables: the same variables in each process. Those that do not hold numbers keep their values, with a warning.
        hvd: the module `horovod.tensorflow`, after its `init`.

    Returns:
        An operation that every process must run.

    Note: `hvd.broadcast_global_variables` takes all variables of the graph, and names operations after the
    operation that reads each one. Both differ if callbacks of the chief add something to its graph, and the
    ranks would deadlock.
    """
    moved = [var for var in variables if var.dtype.base_dtype in _SUPPORTED | _BYTES]
    kept = [var.op.name for var in variables if var.dtype.base_dtype not in _SUPPORTED | _BYTES]
    if kept:
        logger.warning(f"These variables do not hold numbers and are not broadcast: {', '.join(kept)}")
    return tf.group(*[var.assign(_value_of_rank_0(var, hvd), read_value=False) for var in moved])


def _value_of_rank_0(variable: tf.Variable, hvd: ModuleType) -> tf.Tensor:
    dtype = variable.dtype.base_dtype
    value = tf.convert_to_tensor(shared_read(variable))
    sent = tf.bitcast(value, tf.uint8) if dtype in _BYTES else value
    name = f"variable.{variable.op.name.replace('/', '.')}"
    received = hvd.broadcast(sent, root_rank=0, name=name, ignore_name_scope=True)
    return tf.bitcast(received, dtype) if dtype in _BYTES else received
