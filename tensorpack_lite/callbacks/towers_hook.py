"""Hook that evaluates tensors of several inference towers, and the number of their samples."""

from __future__ import annotations

from typing import Any, Callable

from ..compat import tfv1 as tf


class TowersHook(tf.train.SessionRunHook):
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


def count_samples(tensor: tf.Tensor) -> tf.Tensor:
    """Return the size of the first dimension; 1 for a scalar."""
    return tf.constant(1) if tensor.shape.ndims == 0 else tf.shape(tensor)[0]
