"""`tf.contrib.training.bucket` and `bucket_by_sequence_length`."""

from __future__ import annotations

import inspect
from typing import Any, Sequence

from ...compat import tfv1 as tf

_ENDS = (tf.errors.OutOfRangeError, tf.errors.CancelledError)


def bucket(
    tensors: Any,
    which_bucket: Any,
    batch_size: Any,
    num_buckets: int,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[tf.Tensor, Any]:
    """
    Batch tensors with others of their bucket, by queues whose threads `tf.train.start_queue_runners` starts.

    Args:
        tensors: a list or a dict of tensors.
        which_bucket: the bucket of these tensors, an integer scalar.
        batch_size: the size of all batches, or a list with one for each bucket.
        num_buckets: at least two.
        num_threads: how many threads fill the buckets.
        capacity: how many batches wait, and how many elements in a bucket (at least a batch).
        bucket_capacities: how many elements wait in each bucket instead.
        shapes: the shapes of the tensors; by default those that the graph knows.
        dynamic_pad: fill the tensors of a batch with zeros to the same shape.
        allow_smaller_final_batch: also return what remains in the buckets at the end of the data.
        keep_input: a bool scalar; the tensors are dropped where it is false.
        shared_name: the name of the queue of batches, which several sessions share.
        name: the name scope. The default is "bucket".

    Returns:
        The bucket, and the batch in the structure of `tensors`. For a list of one tensor, it is a tensor.

    Raises:
        ValueError: there are fewer than two buckets, or not as many sizes and capacities as buckets.
    """
    sizes = list(batch_size) if isinstance(batch_size, (list, tuple)) else [batch_size] * num_buckets
    capacities = bucket_capacities or [max(capacity, size) for size in sizes]
    if num_buckets < 2 or not len(sizes) == len(capacities) == num_buckets:
        raise ValueError(
            f"bucket: expected at least two buckets with a batch size and a capacity each, got {num_buckets} buckets, "
            f"{len(sizes)} sizes and {len(capacities)} capacities. Pass lists of the same length."
        )
    with tf.name_scope(name, "bucket"):
        flat = [tf.convert_to_tensor(one) for one in tf.nest.flatten(tensors)]
        known = [one.shape for one in flat] if shapes is None else _flat_shapes(shapes)
        types = [one.dtype for one in flat]
        queue_class = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        queues = [queue_class(size, types, known) for size in capacities]
        batches = tf.FIFOQueue(capacity, [tf.int32, *types], shared_name=shared_name)
        _fill(queues, flat, which_bucket, keep_input, num_threads)
        moves = []
        for i, (queue, size) in enumerate(zip(queues, sizes)):
            batch = (queue.dequeue_up_to if allow_smaller_final_batch else queue.dequeue_many)(size)
            moves.append(batches.enqueue([i, *(batch if isinstance(batch, (list, tuple)) else [batch])]))
        runner = tf.train.QueueRunner(batches, moves, queue_closed_exception_types=_ENDS)
        tf.train.add_queue_runner(runner)
        index, *results = batches.dequeue()
        is_fixed = len(set(sizes)) == 1 and not allow_smaller_final_batch
        index.set_shape([])
        for result, shape in zip(results, known):
            result.set_shape(tf.TensorShape([sizes[0] if is_fixed else None]).concatenate(shape))
    is_single = isinstance(tensors, (list, tuple)) and len(tensors) == 1
    return index, results[0] if is_single else tf.nest.pack_sequence_as(tensors, results)


_OPTIONS = list(inspect.signature(bucket).parameters)[4:]  # those after `num_buckets`


def _flat_shapes(shapes: Any) -> list[tf.TensorShape]:
    """Return the shapes of a list or a dict, in the order of `tf.nest.flatten`."""
    ordered = [shapes[key] for key in sorted(shapes)] if isinstance(shapes, dict) else shapes
    return [tf.TensorShape(shape) for shape in ordered]


def _fill(queues: list[Any], tensors: list[Any], which_bucket: Any, keep_input: Any, num_threads: int) -> None:
    """Create the queue runner that puts tensors into the queue of their bucket."""
    index = tf.cast(which_bucket, tf.int32)
    enqueues = [
        tf.cond(
            tf.logical_and(keep_input, tf.equal(index, i)),
            lambda queue=queue: queue.enqueue(tensors),
            tf.no_op,
        )
        for i, queue in enumerate(queues)
    ]
    runner = tf.train.QueueRunner(
        queues[0],
        [tf.group(*enqueues)] * num_threads,
        close_op=tf.group(*[queue.close() for queue in queues]),
        cancel_op=tf.group(*[queue.close(cancel_pending_enqueues=True) for queue in queues]),
        queue_closed_exception_types=_ENDS,
    )
    tf.train.add_queue_runner(runner)


def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: Any,
    bucket_boundaries: Sequence[int],
    *args: Any,
    **kwargs: Any,
) -> tuple[tf.Tensor, Any]:
    """
    Batch sequences with others of similar length.

    Args:
        input_length: the length of the sequence, an integer scalar.
        tensors: a list or a dict of tensors.
        bucket_boundaries: the smallest lengths of the buckets after the first one, in increasing order.
        batch_size, args, kwargs: see `bucket`; the arguments after `num_buckets`.

    Returns:
        The lengths of the sequences of a batch, and the batch in the structure of `tensors`.

    Raises:
        ValueError: the boundaries are not in increasing order, or see `bucket`.
    """
    boundaries = list(bucket_boundaries)
    if not boundaries or any(low >= high for low, high in zip(boundaries, boundaries[1:])):
        raise ValueError(
            f"bucket_by_sequence_length: expected bucket_boundaries in increasing order, got {boundaries}. Sort them."
        )
    length = tf.cast(input_length, tf.int32)
    which_bucket = tf.reduce_sum(tf.cast(length >= tf.constant(boundaries), tf.int32))
    options = dict(zip(_OPTIONS, args), **kwargs)
    options["name"] = options.get("name") or "bucket_by_sequence_length"
    if options.get("shapes") is not None:
        options["shapes"] = [[], *_flat_shapes(options["shapes"])]
    _, (lengths, batch) = bucket([length, tensors], which_bucket, batch_size, len(boundaries) + 1, **options)
    return lengths, batch
