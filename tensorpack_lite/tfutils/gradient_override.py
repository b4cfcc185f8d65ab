"""Gradients of existing tensors that replace those of their operations."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..utils.argtools import graph_memoized, memoized

Gradient = Callable[..., Sequence[Any]]
_NAME = "tensorpack_lite.tfutils.gradient_override"  # of the gradient, in the graph


def with_gradient(results: Sequence[tf.Tensor], inputs: Sequence[tf.Tensor], gradient: Gradient) -> list[tf.Tensor]:
    """
    Return `results` with a custom gradient, which flows to `inputs`.

    `tf.custom_gradient` is not used, because it keeps the graph alive forever, searches all variables in each call, and
    calls the function of the gradient without the operation.

    Args:
        results: tensors.
        inputs: the tensors that the gradient flows to.
        gradient: a function from the gradients with respect to each result (None where there is none) to
            those with respect to each input.
    """
    with tf.get_default_graph().gradient_override_map({"IdentityN": register_gradient(_NAME, _find_gradient)}):
        outputs = tf.identity_n([*results, *inputs])[: len(results)]
    _gradients()[outputs[0].op.name] = (len(results), gradient)
    return outputs


@graph_memoized
def _gradients() -> dict[str, tuple[int, Gradient]]:
    """Return the gradient functions of the current graph, with the number of results, by the name of the operation."""
    return {}


@memoized
def register_gradient(name: str, gradient: Callable[..., Any]) -> str:
    """Register the gradient of an operation with TensorFlow, once, and return its name."""
    tf.RegisterGradient(name)(gradient)
    return name


def _find_gradient(op: tf.Operation, *of_outputs: Any) -> list[Any]:
    with op.graph.as_default():
        count, gradient = _gradients()[op.name]
    return [None] * count + list(gradient(*of_outputs[:count]))
