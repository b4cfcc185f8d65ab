"""Which operations a run of the session needs."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from ..compat import tfv1 as tf
from ..utils.argtools import graph_memoized

__all__ = ["dependency_of_fetches", "dependency_of_targets", "operations_needed"]


def dependency_of_targets(targets: Iterable[Any], op: Any) -> bool:
    """
    Tell whether running the targets runs an operation.

    Args:
        targets: tensors, operations, variables, or their names. Names alone are looked up in the default graph.
        op: an operation or tensor, or its name.

    Returns:
        True if `op` is one of the targets or is needed by one, through inputs or control inputs.

    Note: the answer for the same names is remembered; edges that are added to old operations later are not seen.

    tensorpack: same.
    """
    targets = list(targets)
    with _graph_of([op, *targets]).as_default():
        names = tuple(sorted({_operation(target).name for target in targets}))
        return _depends(names, _operation(op).name)


def dependency_of_fetches(fetches: Any, op: Any) -> bool:
    """
    Tell whether `sess.run(fetches)` runs an operation.

    Args:
        fetches: anything that `sess.run` takes: nested lists, tuples and dictionaries of tensors, operations,
            variables, sparse tensors, names.
        op: an operation or tensor, or its name.

    tensorpack: same.
    """
    return dependency_of_targets(_leaves(fetches), op)


def operations_needed(targets: Iterable[Any]) -> list[Any]:
    """
    List the operations that a run of the targets runs.

    Args:
        targets: operations of one graph.

    Returns:
        The targets and all they need, each once, nearest first.
    """
    found: dict[str, Any] = {}
    waiting = list(targets)
    while waiting:
        layer, waiting = waiting, []
        for op in layer:
            if op.name not in found:
                found[op.name] = op
                waiting += [tensor.op for tensor in op.inputs]
                waiting += op.control_inputs
    return list(found.values())


@graph_memoized
def _depends(target_names: tuple[str, ...], op_name: str) -> bool:
    return op_name in _names_needed(target_names)


@graph_memoized
def _names_needed(target_names: tuple[str, ...]) -> frozenset[str]:
    graph = tf.get_default_graph()
    return frozenset(
        op.name for op in operations_needed(graph.get_operation_by_name(name) for name in target_names)
    )


def _graph_of(elements: Iterable[Any]) -> Any:
    """Return the graph of the elements; the default graph if all of them are names."""
    return next((e.graph for e in elements if hasattr(e, "graph")), None) or tf.get_default_graph()


def _operation(element: Any) -> Any:
    found = tf.get_default_graph().as_graph_element(element)
    return found if isinstance(found, tf.Operation) else found.op


def _leaves(fetches: Any) -> list[Any]:
    if isinstance(fetches, Mapping):
        return [leaf for value in fetches.values() for leaf in _leaves(value)]
    if isinstance(fetches, (list, tuple)):
        return [leaf for value in fetches for leaf in _leaves(value)]
    if fetches is None:
        return []
    return tf.nest.flatten(fetches, expand_composites=True)
