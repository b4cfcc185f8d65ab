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


def count_samples(inputs: Sequence[tf.Tensor], shapes: Sequence[tf.TensorShape]) -> tf.Tensor:
    """
    Return the number of samples of a datapoint: the first dimension of the first input, or of the first one that is not empty.

    If the first dimension of an input may vary, vectors of a fixed length, such as the weights of classes, do not
    count. A scalar does not count either.

    Args:
        inputs: the inputs of a tower.
        shapes: their shapes in the signature of the model. The tensors may know less, or more.

    Returns:
        Two integers: the number, which is 0 if all inputs are empty and 1 if all are scalars; and 1 if it is certain,
        otherwise 0. A number that may vary is not certain if the inputs disagree, if one of them is a scalar or has a
        fixed first dimension, such as an image beside its boxes, or if each may vary in other dimensions, too, as in
        [None, None, 3], which can be one image of any size.
    """
    known = [(x, _merged(x.shape, shape)) for x, shape in zip(inputs, shapes) if x.shape.ndims != 0]
    if not known:
        return tf.constant([1, 1])
    free = [(x, shape) for x, shape in known if shape.ndims is None or shape[:1].as_list() == [None]]
    fixed = [(x, shape) for x, shape in known if shape[:1].as_list() != [None] and (not free or shape.ndims > 1)]
    varying = _first_dimensions([x for x, _ in free])
    sizes = tf.concat([varying, _first_dimensions([x for x, _ in fixed])], 0)
    count = tf.concat([tf.boolean_mask(sizes, sizes > 0), [0]], 0)[:1]
    may_agree = not fixed and len(known) == len(inputs)
    if may_agree and any(shape.ndims is not None and shape[1:].is_fully_defined() for _, shape in free):
        is_certain = tf.reduce_all(tf.equal(varying, count))
    else:
        is_certain = tf.constant(not free)
    return tf.concat([count, [tf.cast(is_certain, tf.int32)]], 0)


def _merged(shape: tf.TensorShape, other: tf.TensorShape) -> tf.TensorShape:
    return shape.merge_with(other) if shape.is_compatible_with(other) else shape


def _first_dimensions(arrays: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the first dimension of each tensor; of a scalar, 1."""
    return tf.concat([tf.zeros([0], tf.int32), *(tf.concat([tf.shape(x), [1]], 0)[:1] for x in arrays)], 0)
