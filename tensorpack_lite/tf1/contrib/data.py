"""`tf.contrib.data`: names of `tf.data` and `tf.data.experimental`, and transformations that they no longer have."""

from __future__ import annotations

from typing import Any, Callable

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__, sources=("tf.data.experimental", "tf.data"), inner={"python": __name__}, same=("ops",)
)

Transformation = Callable[[Any], Any]


def batch_and_drop_remainder(batch_size: int) -> Transformation:
    """Return a function for `Dataset.apply` that batches, and drops an incomplete last batch."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size: int, padded_shapes: Any, padding_values: Any = None) -> Transformation:
    """Return a function for `Dataset.apply` that pads and batches, and drops an incomplete last batch."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def sloppy_interleave(map_func: Callable[..., Any], cycle_length: int, block_length: int = 1) -> Transformation:
    """Return a function for `Dataset.apply` that interleaves data sets in the order in which they are ready."""
    return tf.data.experimental.parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def assert_element_shape(expected_shapes: Any) -> Transformation:
    """Return a function for `Dataset.apply` that sets and checks the shapes of the elements."""

    def ensure(*elements: Any) -> Any:
        one = elements[0] if len(elements) == 1 else elements
        flat = [
            tf.ensure_shape(tensor, shape) for tensor, shape in zip(tf.nest.flatten(one), _flat_shapes(expected_shapes))
        ]
        return tf.nest.pack_sequence_as(one, flat)

    return lambda dataset: dataset.map(ensure)


def _flat_shapes(shapes: Any) -> list[Any]:
    if isinstance(shapes, tf.TensorShape):
        return [shapes]
    members = shapes.values() if isinstance(shapes, dict) else shapes
    return [flat for shape in members for flat in _flat_shapes(shape)]
