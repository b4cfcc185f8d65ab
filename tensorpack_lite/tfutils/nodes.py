"""Search for operations of certain types in what a session run executes, also in functions."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Sequence

from ..compat import tfv1 as tf
from ..compat.private import op_definition

_IsWanted = Callable[[Any], bool]


def find_nodes(ops: Sequence[tf.Operation], is_wanted: _IsWanted) -> Iterator[tuple[str, Any]]:
    """
    Find the operations of certain types among those that a run executes, and in the functions that they call.

    Args:
        ops: what the run executes; see `operations_needed`.
        is_wanted: called with the `OpDef` of each type; returns whether to yield its operations.

    Yields:
        The name and the `NodeDef` of an operation. One in a function, e.g. in the body of a loop of TensorFlow 2, has the
        name of the operation that calls the function as prefix. The functions of `tf.data` are omitted.
    """
    if not ops:
        return iter(())
    search = _Search(ops[0].graph, is_wanted)
    return search.find(op.node_def for op in ops if search.is_relevant(op.type))


class _Search:
    """A search in a graph and its functions."""

    def __init__(self, graph: tf.Graph, is_wanted: _IsWanted) -> None:
        self._graph, self._is_wanted = graph, is_wanted
        self._functions = {function.signature.name: function for function in graph.as_graph_def().library.function}
        self._relevant: dict[str, bool] = {}

    def is_relevant(self, kind: str) -> bool:
        """Return whether operations of a type match or call functions."""
        if kind not in self._relevant:
            definition = op_definition(self._graph, kind)
            calls = kind in self._functions or any(attr.type in ("func", "list(func)") for attr in definition.attr)
            is_data = "Dataset" in kind or "Iterator" in kind
            self._relevant[kind] = self._is_wanted(definition) or (calls and not is_data)
        return self._relevant[kind]

    def find(self, nodes: Iterable[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the matching nodes, and those in the functions that the nodes call."""
        for node in nodes:
            if not self.is_relevant(node.op):
                continue
            if self._is_wanted(op_definition(self._graph, node.op)):
                yield prefix + node.name, node
            for function in self._called(node):
                yield from self.find(function.node_def, f"{prefix}{node.name}/")

    def _called(self, node: Any) -> list[Any]:
        if "Dataset" in node.op or "Iterator" in node.op:
            return []
        called = {node.op}
        for value in node.attr.values():
            called.add(value.func.name)
            called.update(function.name for function in value.list.func)
        return [self._functions[name] for name in sorted(called) if name in self._functions]
