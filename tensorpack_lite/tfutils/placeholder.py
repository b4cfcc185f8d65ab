"""The placeholders of a model's inputs: one for each name and shape in a graph, shared by all who feed it."""

from __future__ import annotations

from typing import Any

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf

__all__ = ["build_or_reuse_placeholder"]


def build_or_reuse_placeholder(tensor_spec: Any) -> Any:
    """
    Get the placeholder of that name at the root of the default graph; create it if there is none.

    A placeholder with the same name and dtype but another static shape is left alone, and a new one is made
    with TensorFlow's next free name (`x_1`).

    Args:
        tensor_spec: a `TensorSpec` with name, shape and dtype.

    Returns:
        A placeholder.

    Raises:
        ValueError: the name is taken by something that is no placeholder, or by one of another dtype or rank.

    tensorpack: same; there the errors are assertions.
    """
    ensure_graph_mode()
    existing = _find_placeholder(tensor_spec)
    if existing is not None and _same_shape(existing.shape, tensor_spec.shape):
        return existing
    with tf.name_scope(None):
        return tf.placeholder(tensor_spec.dtype, shape=tensor_spec.shape, name=tensor_spec.name)


def _find_placeholder(spec: Any) -> Any:
    try:
        tensor = tf.get_default_graph().get_tensor_by_name(f"{spec.name}:0")
    except KeyError:
        return None
    if not tensor.op.type.startswith("Placeholder"):
        raise ValueError(
            f"Input '{spec.name}': that name belongs to an operation of type {tensor.op.type} in this graph, wanted a "
            "placeholder. Rename one of them."
        )
    if tensor.dtype.base_dtype != spec.dtype or not tf.TensorShape(tensor.shape).is_compatible_with(
        spec.shape
    ):
        raise ValueError(
            f"Input '{spec.name}': the graph has a placeholder of that name with {tensor.dtype.name} {tensor.shape}, "
            f"expected {spec.dtype.name} {spec.shape}. Rename one of them, or build each model in a graph of its own, under "
            "`with tf.Graph().as_default():`."
        )
    return tensor


def _same_shape(one: Any, other: Any) -> bool:
    one, other = tf.TensorShape(one), tf.TensorShape(other)
    if one.dims is None or other.dims is None:
        return one.dims is None and other.dims is None
    return one.as_list() == other.as_list()
