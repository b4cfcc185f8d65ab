"""Hook that evaluates tensors of several inference towers, and the number of their samples."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf


class TowersHook(tf.train.SessionRunHook):  # type: ignore[misc]  # TensorFlow has no types
    """
    Hook that evaluates tensors of several towers in each run, and passes on each tower's values in order.

    Args:
        on_fetches: takes the values of a tower.
        tensors: the tensors of each tower.

    Attributes:
        tensors: all of them, in one list.
    """

    def __init__(self, on_fetches: Callable[[list[Any]], None], tensors: list[list[tf.Tensor]]) -> None:
        self._on_fetches = on_fetches
        self._args = tf.train.SessionRunArgs(tensors)
        self.tensors: list[tf.Tensor] = tf.nest.flatten(tensors)

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        """Request the tensors."""
        return self._args

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Pass on the values of each tower."""
        for values in run_values.results:
            self._on_fetches(values)


def count_samples(inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """
    Return the number of samples of a datapoint: the first dimension of the first input, or of the first one that is not empty.

    Inputs with a fixed first dimension, such as the weights of classes, do not count if there are others. A scalar does not
    count either.

    Returns:
        Two integers: the number, which is 0 if all inputs are empty and 1 if all are scalars; and 1 if it is certain, otherwise 0.
        A number that may vary is not certain if the inputs disagree, if one is a scalar, or if each may vary in other dimensions,
        too, as in [None, None, 3], which can be one image of any size.
    """
    arrays = [x for x in inputs if x.shape.ndims != 0]
    free = [x for x in arrays if x.shape.ndims is None or x.shape[:1].as_list() == [None]]
    if not arrays:
        return tf.constant([1, 1])
    sizes = tf.concat([tf.concat([tf.shape(x), [1]], 0)[:1] for x in free or arrays], 0)
    count = tf.concat([tf.boolean_mask(sizes, sizes > 0), [0]], 0)[:1]
    may_agree = len(arrays) == len(inputs) and any(
        x.shape.ndims is not None and x.shape[1:].is_fully_defined() for x in free
    )
    is_certain = tf.reduce_all(tf.equal(sizes, count)) if may_agree else tf.constant(not free)
    return tf.concat([count, [tf.cast(is_certain, tf.int32)]], 0)
