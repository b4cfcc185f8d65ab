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

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        """Pass on the values of each tower."""
        for values in run_values.results:
            self._on_fetches(values)


def count_samples(inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """
    Return the number of samples of a datapoint: the first dimension of the first input, or of the first one that is not empty.

    Returns:
        A scalar; 0 if all inputs are empty. An input that is a scalar does not count. 1 if all are.
    """
    sizes = [tf.concat([tf.shape(x), [1]], 0)[:1] for x in inputs if x.shape.ndims != 0]
    if not sizes:
        return tf.constant(1)
    all_sizes = tf.concat(sizes, 0)
    return tf.concat([tf.boolean_mask(all_sizes, all_sizes > 0), [0]], 0)[0]
