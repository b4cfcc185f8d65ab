"""The placeholders of a model's inputs: one for each name and shape in a graph."""

from __future__ import annotations

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf


def build_or_reuse_placeholder(tensor_spec: tf.TensorSpec) -> tf.Tensor:
    """
    Return the placeholder with a given name at the root of the default graph. Create it if it does not exist.

    If a placeholder with the same name and dtype but another compatible shape exists, a new one is created under
    TensorFlow's next free name (`x_1`).

    Args:
        tensor_spec: a `TensorSpec` with name, shape and dtype.

    Raises:
        ValueError: the name belongs to another kind of operation, or to a placeholder with another dtype or an
            incompatible shape.
    """
    ensure_graph_mode()
    existing = _find_placeholder(tensor_spec)
    # on TF 1.15, unknown sizes of a TensorShape are not equal
    shape = tf.TensorShape(tensor_spec.shape).as_proto()
    if existing is not None and existing.shape.as_proto() == shape:
        return existing
    with tf.name_scope(None):
        return tf.placeholder(tensor_spec.dtype, shape=tensor_spec.shape, name=tensor_spec.name)


def _find_placeholder(spec: tf.TensorSpec) -> tf.Tensor | None:
    try:
        tensor = tf.get_default_graph().get_tensor_by_name(f"{spec.name}:0")
    except KeyError:
        return None
    if not tensor.op.type.startswith("Placeholder"):
        raise ValueError(
            f"Input '{spec.name}': the graph has another operation of this name (expected a placeholder, got "
            f"{tensor.op.type}). Rename one of them."
        )
    if tensor.dtype.base_dtype != spec.dtype or not tensor.shape.is_compatible_with(spec.shape):
        raise ValueError(
            f"Input '{spec.name}': the graph has a different placeholder of this name (expected {spec.dtype.name} {spec.shape}, "
            f"got {tensor.dtype.name} {tensor.shape}). Rename one of them, or build each model in a separate graph, under "
            "`with tf.Graph().as_default():`."
        )
    return tensor
