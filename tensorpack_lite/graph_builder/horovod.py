"""
Horovod's operations between processes: means of gradients, variables for all from one.

Processes find each other's operations by their names, so names must not depend on what else a process has in its graph.
"""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars
from ..tfutils.reads import shared_read
from ..tfutils.scope_utils import under_name_scope
from ..utils import logger

__all__ = ["allreduce_horovod_grads", "broadcast_horovod_variables"]

# What Horovod moves by itself; other numbers travel as their bytes.
_MOVES = {
    tf.bool, tf.float16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16,
}  # fmt: skip
_BYTES = {tf.bfloat16, tf.complex64, tf.complex128, tf.uint32, tf.uint64}


@under_name_scope("AllReduce")
def allreduce_horovod_grads(
    grads: GradVars, hvd: Any, average: bool = True, compression: Any = None
) -> GradVars:
    """
    Reduce the gradients of all processes; each process gets the same result, to the bit.

    Args:
        grads: pairs of gradient and variable, the same variables in the same order in each process. A gradient may be an
            `IndexedSlices`; the reduced one has the slices of all processes then.
        hvd: the module `horovod.tensorflow`, after its `init`.
        average: the mean; else the sum.
        compression: a member of `hvd.Compression`; None sends what there is.

    Returns:
        Pairs of reduced gradient and variable; those of a single process unchanged.
    """
    if hvd.size() == 1:
        return grads
    options = {"op": hvd.Average if average else hvd.Sum}
    if compression is not None:
        options["compression"] = compression
    return [(hvd.allreduce(grad, **options), var) for grad, var in grads]


@under_name_scope("BroadcastVariables")
def broadcast_horovod_variables(variables: Sequence[Any], hvd: Any) -> Any:
    """
    Give variables the values that rank 0 has, to the bit.

    Args:
        variables: the same ones in each process. Those that hold no numbers keep their values, with a warning.
        hvd: the module `horovod.tensorflow`, after its `init`.

    Returns:
        An operation that every process must run.

    Note: `hvd.broadcast_global_variables` takes all variables there are and names operations after how each is read: both differ
    where the chief's callbacks have added something, and then ranks wait for each other without end.
    """
    moved = [var for var in variables if var.dtype.base_dtype in _MOVES | _BYTES]
    kept = [var.op.name for var in variables if var.dtype.base_dtype not in _MOVES | _BYTES]
    if kept:
        logger.warning(f"These variables are not broadcast, since they hold no numbers: {', '.join(kept)}")
    return tf.group(*[var.assign(_value_of_rank_0(var, hvd), read_value=False) for var in moved])


def _value_of_rank_0(variable: Any, hvd: Any) -> Any:
    dtype = variable.dtype.base_dtype
    value = tf.convert_to_tensor(shared_read(variable))
    sent = tf.bitcast(value, tf.uint8) if dtype in _BYTES else value
    name = f"variable.{variable.op.name.replace('/', '.')}"
    received = hvd.broadcast(sent, root_rank=0, name=name, ignore_name_scope=True)
    return tf.bitcast(received, dtype) if dtype in _BYTES else received
