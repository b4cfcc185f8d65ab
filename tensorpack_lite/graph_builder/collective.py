"""
All-reduce of gradients and broadcast of variables between processes, with TensorFlow's collective operations.

TensorFlow matches the operations of the processes by keys, which count up in each graph, so every process
must build the same operations in the same order. Tensors are fused into a few flat buffers of one dtype,
because each operation takes a millisecond, whatever its size.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, NamedTuple, Sequence

from ..compat import TF_VERSION, tensorflow
from ..compat import tfv1 as tf
from ..tfutils.early_read import shared_read
from ..tfutils.gradproc import GradVars
from ..tfutils.scope_utils import under_name_scope
from ..utils import logger
from .allreduce import next_instance_key

_GROUP_KEY = 7  # graph_builder/allreduce.py has 42, for devices of one process
_BUFFER_BYTES = 4 << 20  # one buffer of 16 MB takes 1.3 to 2 times as long as 4 x 4 MB: benchmarks/scaling.py
# TensorFlow 1.15: "CollectiveImplementation does not support datatype 19"
_SUPPORTS_HALF = TF_VERSION >= (2, 0)

# The dtype that each dtype is sent as. TensorFlow 1.15 only supports float32, float64, int32 and int64.
_WIRE_DTYPES = {
    tf.float16: tf.float32,
    tf.bfloat16: tf.float32,
    tf.bool: tf.int32,
    tf.int8: tf.int32,
    tf.uint8: tf.int32,
    tf.int16: tf.int32,
    tf.uint16: tf.int32,
    tf.uint32: tf.int64,
    tf.float32: tf.float32,
    tf.float64: tf.float64,
    tf.int32: tf.int32,
    tf.int64: tf.int64,
}


class RankGroup(NamedTuple):
    """
    A group of processes.

    Args:
        rank: the number of this process.
        size: the number of processes.
        hint: "auto", a ring over gRPC, or "nccl" for GPUs.
        first_key: the number that the keys of operations count up from. TensorFlow's servers remember keys,
            so another graph on the same servers needs other keys.
    """

    rank: int
    size: int
    hint: str = "auto"
    first_key: int = 0


@under_name_scope("AllReduce")
def allreduce_rank_grads(
    grads: GradVars, group: RankGroup, average: bool = True, compression: str | None = None
) -> GradVars:
    """
    Reduce the gradients of all processes; each process receives the same result, bit for bit.

    Args:
        grads: pairs of gradient and variable, with the same variables in the same order in each process. If a
            gradient is an `IndexedSlices`, the reduced one has the slices of all processes.
        group: the processes.
        average: whether to compute the mean instead of the sum.
        compression: "fp16" sends float32 as float16. None sends gradients unchanged.

    Returns:
        Pairs of reduced gradient and variable. Those of a single process are unchanged.
    """
    if group.size == 1:
        return grads
    factor = 1.0 / group.size if average else None
    reducer = _Reducer(group, factor, compression)
    dense = [grad for grad, _ in grads if not isinstance(grad, tf.IndexedSlices)]
    reduced = iter(_fuse(reducer.fused, dense))
    return [(reducer.slices(grad) if isinstance(grad, tf.IndexedSlices) else next(reduced), var) for grad, var in grads]


def mean_over_group(tensor: tf.Tensor, group: RankGroup) -> tf.Tensor:
    """
    Compute the mean of one tensor over all processes, without waiting for others to fuse with.

    Args:
        tensor: a tensor of any floating dtype, with the same shape and dtype in each process.
        group: the processes.

    Returns:
        The mean, the same in each process, bit for bit. It has no gradient.
    """
    if group.size == 1:
        return tensor
    return _Reducer(group, 1.0 / group.size, compression=None).fused([tensor])[0]


@under_name_scope("BroadcastVariables")
def broadcast_variables(variables: Sequence[tf.Variable], group: RankGroup) -> tf.Operation:
    """
    Set variables to the values of rank 0.

    Args:
        variables: the same variables in the same order in each process. Others than numbers keep their
            values, with a warning.
        group: the processes.

    Returns:
        An operation that every process must run.
    """
    if group.size == 1:
        return tf.no_op()
    kept = [var.op.name for var in variables if var.dtype.base_dtype not in _WIRE_DTYPES]
    if kept:
        logger.warning(f"These variables do not hold numbers and are not broadcast: {', '.join(kept)}")
    variables = [var for var in variables if var.dtype.base_dtype in _WIRE_DTYPES]
    values = [tf.convert_to_tensor(shared_read(var)) for var in variables]
    with tf.control_dependencies(values):
        received = _fuse(_Broadcaster(group), values)
    with tf.control_dependencies(received):
        return tf.group(*[var.assign(value, read_value=False) for var, value in zip(variables, received)])


class _Ordered:
    """Collective operations that run in the order of their creation, which is the same in all processes."""

    def __init__(self, group: RankGroup) -> None:
        self._group = group
        self._last: Any = None

    def _after_last(self, make: Callable[..., tf.Tensor]) -> tf.Tensor:
        """Call a function that makes the next operation, with the arguments that all collective operations have."""
        with tf.control_dependencies([] if self._last is None else [self._last]):
            self._last = make(
                group_size=self._group.size,
                group_key=_GROUP_KEY,
                instance_key=self._group.first_key + next_instance_key(),
                communication_hint=self._group.hint,
            )
        return self._last

    def _sum(self, tensor: tf.Tensor) -> tf.Tensor:
        return self._after_last(
            lambda **common: tensorflow.raw_ops.CollectiveReduce(
                input=tf.identity(tensor), merge_op="Add", final_op="Id", subdiv_offsets=[0], **common
            )
        )


class _Reducer(_Ordered):
    """Sums, or scaled sums, over all processes."""

    def __init__(self, group: RankGroup, factor: float | None, compression: str | None) -> None:
        super().__init__(group)
        self._factor, self._compresses = factor, compression == "fp16"

    def fused(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Reduce tensors of one dtype as one buffer."""
        wire = _wire_dtype(tensors[0].dtype)
        flat = tf.concat([tf.reshape(tf.cast(t, wire), [-1]) for t in tensors], 0, name="fused")
        total = self._scaled(self._compressed_sum(flat))
        sizes = [tf.size(t, out_type=tf.int64) for t in tensors]
        parts = tf.split(total, sizes) if len(tensors) > 1 else [total]
        shapes = [tf.shape(t, out_type=tf.int64) for t in tensors]
        reduced = [tf.cast(tf.reshape(part, shape), t.dtype) for part, shape, t in zip(parts, shapes, tensors)]
        for result, tensor in zip(reduced, tensors):
            result.set_shape(tensor.shape)
        return reduced

    def slices(self, grad: tf.IndexedSlices) -> tf.IndexedSlices:
        """
        Concatenate the slices of all processes, whose number may differ.

        Each process fills its section of a buffer of zeros, so the sum of the buffers has all slices. Unused places are
        removed.
        """
        rank, size = self._group.rank, self._group.size
        number = tf.shape(grad.indices)[:1]
        counts = self._sum(tf.one_hot(rank, size, dtype=tf.int32) * number)
        longest = tf.reduce_max(counts)
        missing = longest - number[0]

        def place(tensor: tf.Tensor) -> tf.Tensor:
            padding = tf.concat([[[0, missing]], tf.zeros([tf.rank(tensor) - 1, 2], tf.int32)], 0)
            padded = tf.expand_dims(tf.pad(tensor, padding), 0)
            before = tf.zeros(tf.concat([[rank], tf.shape(padded)[1:]], 0), tensor.dtype)
            after = tf.zeros(tf.concat([[size - rank - 1], tf.shape(padded)[1:]], 0), tensor.dtype)
            return tf.concat([before, padded, after], 0)

        is_filled = tf.sequence_mask(counts, longest)
        wire = _wire_dtype(grad.values.dtype)
        values = self._scaled(self._compressed_sum(place(tf.cast(grad.values, wire))))
        indices = self._sum(place(tf.cast(grad.indices, tf.int64)))
        values = tf.cast(tf.boolean_mask(values, is_filled), grad.values.dtype)
        values.set_shape(tf.TensorShape([None]).concatenate(grad.values.shape[1:]))
        indices = tf.cast(tf.boolean_mask(indices, is_filled), grad.indices.dtype)
        return tf.IndexedSlices(values, indices, grad.dense_shape)

    def _scaled(self, total: tf.Tensor) -> tf.Tensor:
        return total if self._factor is None else total * tf.cast(self._factor, total.dtype)

    def _compressed_sum(self, tensor: tf.Tensor) -> tf.Tensor:
        if not self._compresses or tensor.dtype != tf.float32:
            return self._sum(tensor)
        half = tf.cast(tensor, tf.float16)
        if _SUPPORTS_HALF:
            return tf.cast(self._sum(half), tf.float32)
        return self._sum_of_gathered(half)

    def _sum_of_gathered(self, half: tf.Tensor) -> tf.Tensor:
        """Sum float16 on TensorFlow 1.15: gather all tensors, two values per int32, and add them up in float32."""
        length = half.shape.num_elements()
        if length is None:  # a gather needs the length
            return self._sum(tf.cast(half, tf.float32))
        size, num_pairs = self._group.size, (length + 1) // 2
        flat = tf.pad(tf.reshape(half, [-1]), [[0, length % 2]])
        pairs = tf.bitcast(tf.reshape(flat, [num_pairs, 2]), tf.int32)
        gathered = self._after_last(
            lambda **common: tensorflow.raw_ops.CollectiveGather(
                input=tf.identity(pairs), shape=[size * num_pairs], **common
            )
        )
        halves = tf.reshape(tf.bitcast(gathered, tf.float16), [size, 2 * num_pairs])
        total = tf.reduce_sum(tf.cast(halves, tf.float32), 0)
        return tf.reshape(total[:length], half.shape)


class _Broadcaster(_Ordered):
    """Broadcasts of rank 0's values."""

    def __call__(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Send values as one buffer. Return the values of rank 0, in every process."""
        wire = _wire_dtype(values[0].dtype)
        flat = tf.concat([tf.reshape(tf.cast(v, wire), [-1]) for v in values], 0, name="fused")
        if self._group.rank == 0:
            make = functools.partial(tensorflow.raw_ops.CollectiveBcastSend, input=flat)
        else:
            make = functools.partial(tensorflow.raw_ops.CollectiveBcastRecv, T=wire)
        received = self._after_last(functools.partial(make, shape=[flat.shape.num_elements()]))
        parts = tf.split(received, [v.shape.num_elements() for v in values]) if len(values) > 1 else [received]
        return [tf.cast(tf.reshape(part, v.shape), v.dtype) for part, v in zip(parts, values)]


def _fuse(func: Callable[[Sequence[tf.Tensor]], list[tf.Tensor]], tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Call a function with groups of tensors, each for one buffer. Return its results, in the order of the tensors."""
    results: Dict[int, tf.Tensor] = {}
    for bucket in _buckets(tensors):
        results.update(zip(bucket, func([tensors[i] for i in bucket])))
    return [results[i] for i in range(len(tensors))]


def _buckets(tensors: Sequence[tf.Tensor]) -> list[list[int]]:
    """Group tensors of one dtype, up to the size of a buffer. Return lists of their positions."""
    open_ones: Dict[Any, tuple[list[int], int]] = {}
    found = []
    for i, tensor in enumerate(tensors):
        wire = _wire_dtype(tensor.dtype)
        num_bytes = (tensor.shape.num_elements() or 0) * wire.size
        bucket, filled = open_ones.get(wire, ([], 0))
        if not bucket or filled + num_bytes > _BUFFER_BYTES:
            bucket, filled = [], 0
            found.append(bucket)
        bucket.append(i)
        open_ones[wire] = (bucket, filled + num_bytes)
    return found


def _wire_dtype(dtype: tf.DType) -> tf.DType:
    return _WIRE_DTYPES.get(dtype.base_dtype, dtype.base_dtype)
