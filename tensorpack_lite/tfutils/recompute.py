"""
Recomputation of activations during backpropagation, to save memory.

Training keeps the activations of all layers until their gradients are computed. A recomputed block keeps only
its inputs, and computes its activations a second time when its gradients are computed. The second computation is
a copy of the block's operations, not a second call of the function. So everything that has effects or state
happens once: variables, reads, random numbers, updates of BatchNorm, members of collections.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..compat.private import inside_control_flow
from ..utils import logger
from .gradient_override import with_gradient


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """
    Wrap a part of a model so that its activations are not kept for the gradients, but computed again.

    The value, the gradients, and everything else that the function builds stay the same. The gradients also reach
    variables, and tensors that the function uses without getting them as arguments.

    Args:
        f: a function of one or more tensors that returns a tensor, or tensors in lists, tuples and dicts. Other arguments
            are passed on.

    Returns:
        A function with the same arguments and results. A result is a new tensor, without the attribute
        `variables` of a layer's output.

    Raises:
        ValueError: (when it is called) no argument is a tensor.

    Example:
        >>> def block(x):
        ...     return Dropout(BNReLU(FullyConnected("fc0", x, 256)), rate=0.5)
        >>> x = recompute_grad(block)(x)

    Note: what must not run twice is kept, and needs memory: random numbers, reads of variables, the means of
    `sync_statistics`, printing, and loops and conditions of TensorFlow 1.15. Random numbers of `exact=True` are
    recomputed, because they repeat.

    Note: `tf.recompute_grad` calls the function a second time instead. Use it only for blocks without Dropout,
    whose second mask is another one, and without BatchNorm, whose averages it would update twice.
    """

    @functools.wraps(f)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        ensure_graph_mode()
        args, kwargs = _replace_tensors([args, kwargs], _bring_here)
        tensors = _find_tensors([args, kwargs])
        if not tensors:
            name = getattr(f, "__name__", type(f).__name__)
            raise ValueError(
                f"recompute_grad: '{name}' has no tensor among its arguments (got {len(args) + len(kwargs)} arguments), so "
                "nothing tells where the recomputation begins. Pass the inputs of the block as arguments."
            )
        graph = tf.get_default_graph()
        before = len(graph.get_operations())
        results = f(*args, **kwargs)
        made = graph.get_operations()[before:]
        return _replace_tensors(results, _Block(tensors, made).wrap)

    return recomputed


class _Block:
    """
    The operations of a block that are computed again.

    Args:
        inputs: tensors from which the block is computed.
        made: the operations that the block consists of, in the order in which they were created.
    """

    def __init__(self, inputs: Sequence[tf.Tensor], made: Sequence[tf.Operation]) -> None:
        self._inputs = {tensor.name: tensor for tensor in inputs}
        self._changing = dict(self._inputs)  # inputs, and tensors that are computed again
        self._ops: list[tf.Operation] = []
        for op in made:
            is_changing = any(tensor.name in self._changing for tensor in op.inputs)
            if _can_repeat(op) and (is_changing or op.type.startswith("StatelessRandom")):
                self._ops.append(op)
                self._changing.update((tensor.name, tensor) for tensor in op.outputs)

    def wrap(self, results: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return the results of the block as tensors whose gradients recompute the block."""
        is_wrapped = [result.name in self._changing and result.name not in self._inputs for result in results]
        wrapped = [result for result, is_made in zip(results, is_wrapped) if is_made]
        ops = self._ancestors(wrapped)
        if not ops:
            logger.warning("recompute_grad: nothing is recomputed, because no operation of the block can be repeated.")
            return results
        used = {tensor.name: tensor for op in ops for tensor in op.inputs}
        made = {tensor.name for op in ops for tensor in op.outputs}
        sources = [tensor for name, tensor in used.items() if name not in made and _has_gradient(tensor)]

        def gradient(*of_results: Any) -> list[Any]:
            pairs = [(result, of_result) for result, of_result in zip(wrapped, of_results) if of_result is not None]
            with tf.name_scope("recompute"):
                repeated = self._repeat(ops, sources, [tensor for pair in pairs for tensor in pair])
            ends = [repeated[source.name] for source in sources]
            return tf.gradients(
                [repeated[result.name] for result, _ in pairs],
                ends,
                [of_result for _, of_result in pairs],
                stop_gradients=ends,
            )

        outputs = iter(with_gradient(wrapped, sources, gradient))
        return [next(outputs) if is_made else result for result, is_made in zip(results, is_wrapped)]

    def _ancestors(self, results: Sequence[tf.Tensor]) -> list[tf.Operation]:
        """Return the operations that the results need, in order."""
        needed = {result.name for result in results}
        ops = []
        for op in reversed(self._ops):
            if any(tensor.name in needed for tensor in op.outputs):
                ops.append(op)
                needed.update(tensor.name for tensor in op.inputs)
        return ops[::-1]

    def _repeat(
        self, ops: Sequence[tf.Operation], sources: Sequence[tf.Tensor], after: Sequence[tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Copy operations so that they run after the given tensors. Return all new tensors, and sources, by their old names."""
        new, graph = {}, tf.get_default_graph()
        first = [tensor.op for tensor in after if tensor.graph is graph]
        with tf.control_dependencies(first):
            for name, tensor in self._inputs.items():
                # not an identity, which TensorFlow's graph optimizer would remove together with the order
                new[name] = tf.ensure_shape(tensor, tensor.shape)
        waiting = set(new)
        for source in sources:
            # an identity, since under `run`, tf.gradients takes a read for the variable
            if source.name not in new:
                new[source.name] = tf.identity(source)
        for op in ops:
            inputs = [new.get(tensor.name, tensor) for tensor in op.inputs]
            waits = any(tensor.name in waiting for tensor in op.inputs)
            with tf.control_dependencies(None if waits else first):
                outputs = _copy(op, inputs).outputs
            for old, copied in zip(op.outputs, outputs):
                copied.set_shape(old.shape)
                new[old.name] = copied
                waiting.add(old.name)
        return new


def _can_repeat(op: tf.Operation) -> bool:
    """Return whether a second execution of an operation returns the same values, and has no effect."""
    has_own_gradient = op.type == "IdentityN" and "_gradient_op_type" in op.node_def.attr
    has_state = op.op_def.is_stateful or any(
        tensor.dtype == tf.resource or tensor.dtype.base_dtype != tensor.dtype for tensor in op.inputs
    )
    return not (has_state or has_own_gradient or inside_control_flow(op))


def _copy(op: tf.Operation, inputs: list[tf.Tensor]) -> tf.Operation:
    attributes = {name: value for name, value in op.node_def.attr.items() if name != "_class"}
    kinds = [tensor.dtype for tensor in op.outputs]
    with tf.device(op.device or None):
        return tf.get_default_graph().create_op(
            op.type, inputs, kinds, name=op.name, attrs=attributes, op_def=op.op_def
        )


def _has_gradient(tensor: tf.Tensor) -> bool:
    return tensor.dtype.is_floating or tensor.dtype.is_complex or tensor.dtype == tf.variant


def _bring_here(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """Return tensors of the current graph. Those of an outer graph, around a branch or loop, get an identity here."""
    graph = tf.get_default_graph()
    return [tensor if tensor.graph is graph else tf.identity(tensor) for tensor in tensors]


def _find_tensors(structure: Any) -> list[tf.Tensor]:
    return [part for part in tf.nest.flatten(structure) if isinstance(part, tf.Tensor)]


def _replace_tensors(structure: Any, replace: Callable[[list[tf.Tensor]], list[tf.Tensor]]) -> Any:
    """Return a structure with other tensors in the place of its tensors."""
    new = iter(replace(_find_tensors(structure)))
    return tf.nest.map_structure(lambda part: next(new) if isinstance(part, tf.Tensor) else part, structure)
