"""`tf.contrib.training`: hyper-parameters, placement on parameter servers, and tf_slim's training functions."""

from __future__ import annotations

import hashlib
from typing import Callable

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__,
    sources=(
        "tensorpack_lite.tf1.contrib._buckets",
        "tensorpack_lite.tf1.contrib._hparams",
        "tf_slim.training.training",
        "tf_slim.training.evaluation",
    ),
    inner={"hparam": "tensorpack_lite.tf1.contrib._hparams"},
    same=("training", "bucket_ops", "device_setter"),
)


class GreedyLoadBalancingStrategy:
    """
    A strategy for `tf.train.replica_device_setter` that places each variable on the least loaded task.

    Args:
        num_tasks: the number of tasks.
        load_fn: a function from an operation to its load, such as `byte_size_load_fn`.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[tf.Operation], float]) -> None:
        self._loads = [0.0] * num_tasks
        self._load_fn = load_fn

    def __call__(self, op: tf.Operation) -> int:
        """Return the task for an operation; the first of those with the same load."""
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


class RandomStrategy:
    """
    A strategy for `tf.train.replica_device_setter` that places a variable by the hash of its name.

    Args:
        num_ps_tasks: the number of tasks.
        seed: another seed gives another placement.
    """

    def __init__(self, num_ps_tasks: int, seed: int = 0) -> None:
        self._num_tasks = num_ps_tasks
        self._seed = seed

    def __call__(self, op: tf.Operation) -> int:
        """Return the task for an operation."""
        key = f"{op.name}_{self._seed}".encode()
        return int(hashlib.md5(key).hexdigest(), 16) % self._num_tasks


def byte_size_load_fn(op: tf.Operation) -> int:
    """
    Return the number of bytes of a variable's value.

    Args:
        op: an operation that creates a variable, or another operation with one output.

    Raises:
        ValueError: the operation has another number of outputs, or the shape is not fully known.
    """
    if len(op.outputs) != 1:
        raise ValueError(f"byte_size_load_fn: {op.name} must have one output (got {len(op.outputs)}).")
    shape, dtype = op.outputs[0].shape, op.outputs[0].dtype.base_dtype
    if dtype == tf.resource:  # a resource variable
        dtype = op.get_attr("dtype")
    if dtype != op.outputs[0].dtype.base_dtype or not shape.is_fully_defined():
        shape = tf.TensorShape(op.get_attr("shape"))
    if not shape.is_fully_defined():
        raise ValueError(f"byte_size_load_fn: expected a fully known shape of {op.name}, got {shape}.")
    return shape.num_elements() * tf.as_dtype(dtype).size
