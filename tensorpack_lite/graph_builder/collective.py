"""
TensorFlow's collective operations between processes: sums of gradients, variables for all from one.

Every process builds the same operations in the same order; they find each other by numbers that count up in each graph. What
crosses is fused into few flat buffers of one dtype, since each operation costs a millisecond whatever its size.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence

from ..compat import TF_VERSION, tensorflow
from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars
from ..tfutils.reads import shared_read
from ..tfutils.scope_utils import under_name_scope
from ..utils import logger
from .allreduce import next_instance_key

__all__ = ["RankGroup", "allreduce_rank_grads", "broadcast_variables", "mean_over_group"]

_GROUP_KEY = 7  # graph_builder/allreduce.py has 42, for devices of one process
_BUFFER_BYTES = 4 << 20  # 16 MB as one take 1.3 to 2 times as long as 4 x 4 MB: tests/benchmarks/scaling.py
_MOVES_HALF = TF_VERSION >= (2, 0)  # TensorFlow 1.15: "CollectiveImplementation does not support datatype 19"

# What a dtype travels as. TensorFlow 1.15 moves only these four: float32, float64, int32, int64.
_TRAVELS_AS = {
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
    The processes that take part.

    Args:
        rank: the number of this process.
        size: how many there are.
        hint: "auto", a ring over gRPC, or "nccl" for GPUs.
        first_key: what the numbers of operations count up from. TensorFlow's servers keep what they know of a number, so another
            graph on the same servers needs others.
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
    Reduce the gradients of all processes; each process gets the same result, to the bit.

    Args:
        grads: pairs of gradient and variable, the same variables in the same order in each process. A gradient may be an
            `IndexedSlices`; the reduced one has the slices of all processes then.
        group: the processes.
        average: the mean; else the sum.
        compression: "fp16" sends float32 as float16; None sends what there is.

    Returns:
        Pairs of reduced gradient and variable; those of a single process unchanged.
    """
    if group.size == 1:
        return grads
    factor = 1.0 / group.size if average else None
    reducer = _Reducer(group, factor, compression)
    dense = [i for i, (grad, _) in enumerate(grads) if not isinstance(grad, tf.IndexedSlices)]
    reduced: Dict[int, Any] = {}
    for bucket in _buckets([grads[i][0] for i in dense], _wire_dtype):
        tensors = [grads[dense[i]][0] for i in bucket]
        for i, tensor in zip(bucket, reducer.fused(tensors)):
            reduced[dense[i]] = tensor
    for i, (grad, _) in enumerate(grads):
        if isinstance(grad, tf.IndexedSlices):
            reduced[i] = reducer.slices(grad)
    return [(reduced[i], var) for i, (_, var) in enumerate(grads)]


def mean_over_group(tensor: Any, group: RankGroup) -> Any:
    """
    Compute the mean of one tensor over all processes, as it comes: for what a layer needs at once.

    Args:
        tensor: of any shape and floating dtype, the same in each process.
        group: the processes.

    Returns:
        The mean, equal in each process, to the bit. It has no gradient.
    """
    if group.size == 1:
        return tensor
    return _Reducer(group, 1.0 / group.size, compression=None).fused([tensor])[0]


@under_name_scope("BroadcastVariables")
def broadcast_variables(variables: Sequence[Any], group: RankGroup) -> Any:
    """
    Give variables the values that rank 0 has.

    Args:
        variables: the same ones in the same order in each process. Those that hold no numbers keep their values, with a warning.
        group: the processes.

    Returns:
        An operation that every process must run.
    """
    if group.size == 1:
        return tf.no_op()
    kept = [var.op.name for var in variables if var.dtype.base_dtype not in _TRAVELS_AS]
    if kept:
        logger.warning(f"These variables are not broadcast, since they hold no numbers: {', '.join(kept)}")
    variables = [var for var in variables if var.dtype.base_dtype in _TRAVELS_AS]
    values = [tf.convert_to_tensor(shared_read(var)) for var in variables]
    send = _Broadcaster(group)
    with tf.control_dependencies(values):
        received: List[Any] = [None] * len(values)
        for bucket in _buckets(values, lambda dtype: _TRAVELS_AS[dtype]):
            for i, value in zip(bucket, send([values[i] for i in bucket])):
                received[i] = value
    with tf.control_dependencies(received):
        return tf.group(*[var.assign(value, read_value=False) for var, value in zip(variables, received)])


class _Ordered:
    """Collective operations that run one after the other, in the order they are made: so no two processes differ in it."""

    def __init__(self, group: RankGroup) -> None:
        self._group = group
        self._last: Any = None

    def _after_the_last(self, make: Callable[[], Any]) -> Any:
        with tf.control_dependencies([] if self._last is None else [self._last]):
            self._last = make()
        return self._last

    def _next_key(self) -> int:
        return self._group.first_key + next_instance_key()

    def _sum(self, tensor: Any) -> Any:
        def make() -> Any:
            return tensorflow.raw_ops.CollectiveReduce(
                input=tf.identity(tensor),
                group_size=self._group.size,
                group_key=_GROUP_KEY,
                instance_key=self._next_key(),
                merge_op="Add",
                final_op="Id",
                subdiv_offsets=[0],
                communication_hint=self._group.hint,
            )

        return self._after_the_last(make)


class _Reducer(_Ordered):
    """Reduces gradients by sums."""

    def __init__(self, group: RankGroup, factor: float | None, compression: str | None) -> None:
        super().__init__(group)
        self._factor, self._compresses = factor, compression == "fp16"

    def fused(self, tensors: Sequence[Any]) -> list[Any]:
        """Reduce tensors as one buffer."""
        wire = _wire_dtype(tensors[0].dtype)
        flat = tf.concat([tf.reshape(tf.cast(t, wire), [-1]) for t in tensors], 0, name="fused")
        total = self._scaled(self._compressed_sum(flat))
        parts = tf.split(total, [tf.size(t) for t in tensors]) if len(tensors) > 1 else [total]
        return [
            _with_shape(tf.cast(tf.reshape(part, tf.shape(t)), t.dtype), t) for part, t in zip(parts, tensors)
        ]

    def slices(self, grad: Any) -> Any:
        """
        Join the slices of all processes, whose number may differ.

        Each process adds its own into a place of its own in a buffer of zeros: the sum holds all. Places that stay empty
        are cut out.
        """
        rank, size = self._group.rank, self._group.size
        number = tf.shape(grad.indices)[:1]
        counts = self._sum(tf.one_hot(rank, size, dtype=tf.int32) * number)
        longest = tf.reduce_max(counts)
        missing = longest - number[0]

        def place(tensor: Any) -> Any:
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

    def _scaled(self, total: Any) -> Any:
        return total if self._factor is None else total * tf.cast(self._factor, total.dtype)

    def _compressed_sum(self, tensor: Any) -> Any:
        if not self._compresses or tensor.dtype != tf.float32:
            return self._sum(tensor)
        half = tf.cast(tensor, tf.float16)
        if _MOVES_HALF:
            return tf.cast(self._sum(half), tf.float32)
        return self._sum_of_gathered(half)

    def _sum_of_gathered(self, half: Any) -> Any:
        """Where float16 cannot be summed on the way: each process gets all, two in an int32, and adds them up in float32."""
        length = half.shape.num_elements()
        if length is None:  # a gather needs to know
            return self._sum(tf.cast(half, tf.float32))
        size, num_pairs = self._group.size, (length + 1) // 2
        flat = tf.pad(tf.reshape(half, [-1]), [[0, length % 2]])
        pairs = tf.bitcast(tf.reshape(flat, [num_pairs, 2]), tf.int32)
        gathered = self._after_the_last(
            lambda: tensorflow.raw_ops.CollectiveGather(
                input=tf.identity(pairs),
                group_size=size,
                group_key=_GROUP_KEY,
                instance_key=self._next_key(),
                shape=[size * num_pairs],
                communication_hint=self._group.hint,
            )
        )
        halves = tf.reshape(tf.bitcast(gathered, tf.float16), [size, 2 * num_pairs])
        total = tf.reduce_sum(tf.cast(halves, tf.float32), 0)
        return tf.reshape(total[:length], half.shape)


class _Broadcaster(_Ordered):
    """Sends what rank 0 has."""

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """Send values as one buffer; returns what rank 0 sent, in every process."""
        wire = _TRAVELS_AS[values[0].dtype.base_dtype]
        flat = tf.concat([tf.reshape(tf.cast(v, wire), [-1]) for v in values], 0, name="fused")
        length = flat.shape.num_elements()
        common = {
            "group_size": self._group.size,
            "group_key": _GROUP_KEY,
            "instance_key": self._next_key(),
            "shape": [length],
            "communication_hint": self._group.hint,
        }
        if self._group.rank == 0:
            received = self._after_the_last(
                lambda: tensorflow.raw_ops.CollectiveBcastSend(input=flat, **common)
            )
        else:
            received = self._after_the_last(lambda: tensorflow.raw_ops.CollectiveBcastRecv(T=wire, **common))
        parts = (
            tf.split(received, [v.shape.num_elements() for v in values]) if len(values) > 1 else [received]
        )
        return [tf.cast(tf.reshape(part, v.shape), v.dtype) for part, v in zip(parts, values)]


def _buckets(tensors: Sequence[Any], wire_dtype: Callable[[Any], Any]) -> list[list[int]]:
    """Divide tensors, by their positions, into groups that travel as one: of one dtype, and not too large together."""
    open_ones: Dict[Any, tuple[list[int], int]] = {}
    found = []
    for i, tensor in enumerate(tensors):
        wire = wire_dtype(tensor.dtype.base_dtype)
        num_bytes = (tensor.shape.num_elements() or 0) * wire.size
        bucket, filled = open_ones.get(wire, ([], 0))
        if not bucket or filled + num_bytes > _BUFFER_BYTES:
            bucket, filled = [], 0
            found.append(bucket)
        bucket.append(i)
        open_ones[wire] = (bucket, filled + num_bytes)
    return found


def _wire_dtype(dtype: Any) -> Any:
    return _TRAVELS_AS.get(dtype.base_dtype, dtype.base_dtype)


def _with_shape(tensor: Any, like: Any) -> Any:
    tensor.set_shape(like.shape)
    return tensor
