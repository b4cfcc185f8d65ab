"""`tf.contrib.util`: conversion of tensors to protocol buffers and constants."""

from __future__ import annotations

from typing import Any

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(__name__, sources=("tf",))


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """Return the value of a constant tensor as an ndarray, or None if the graph does not determine it."""
    return tf.get_static_value(tensor, partial)


def ops_used_by_graph_def(graph_def: Any) -> list[str]:
    """Return the names of the operations, such as "MatMul", that a GraphDef and its functions use."""
    functions = {function.signature.name for function in graph_def.library.function}
    used = {node.op for node in graph_def.node}
    for function in graph_def.library.function:
        used |= {node.op for node in function.node_def}
    return sorted(used - functions)
