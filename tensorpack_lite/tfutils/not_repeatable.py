"""Search for operations whose results may differ between two runs on a CPU, although their inputs are the same."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Callable, Mapping, NamedTuple

from ..compat import TF_VERSION
from ..compat import tfv1 as tf
from .dependency import operations_of_fetches
from .nodes import find_nodes
from .random import determinism_switches

_FEW_ROWS = 1024  # scatter operations with fewer rows are not divided among threads
_UNIQUE = ("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "Range", "Where")
_PASSES_ON = ("Identity", "Cast", "Reshape", "Squeeze", "ExpandDims")


class Operation(NamedTuple):
    """
    An operation that may not repeat.

    Attributes:
        name: its name; one in a function has a name as in `find_nodes`.
        reason: why its results may differ.
    """

    name: str
    reason: str


class _Graph:
    """The operations of a run, also those in functions, by name."""

    def __init__(self, ops: list[Any]) -> None:
        self._ops = ops
        self._nodes: Mapping[str, Any] | None = None

    def source(self, name: str, node: Any, index: int) -> Any:
        """Return the `NodeDef` from which an input comes, behind changes of its shape or dtype; None if it is not known."""
        if self._nodes is None:  # most runs have no operation that asks
            self._nodes = dict(find_nodes(self._ops, lambda definition: definition.name in _UNIQUE + _PASSES_ON))
        prefix = name[: len(name) - len(node.name)]
        found = self._nodes.get(prefix + _producer(node.input[index]))
        while found is not None and found.op in _PASSES_ON:
            found = self._nodes.get(prefix + _producer(found.input[0]))
        return found

    def size(self, name: str, index: int) -> int | None:
        """Return the number of elements of an input; None if it is not known, e.g. in a function."""
        try:
            shape = self._ops[0].graph.get_operation_by_name(name).inputs[index].shape
        except KeyError:
            return None
        return int(shape.num_elements()) if shape.is_fully_defined() else None

    def most_writes(self, name: str) -> int:
        """
        Return the largest number of operations that write the same element of the gradient of an array.

        Each read has its own operation for the gradient of the whole array. Returns 0 for all but the first one.
        """
        try:
            array = self._ops[0].graph.get_operation_by_name(name).inputs[0]
        except KeyError:
            return 0
        grads = [op for op in array.consumers() if op.type == "TensorArrayGradV3"]
        if name != grads[0].name:
            return 0
        writes = [op for grad in grads for op in grad.outputs[0].consumers() if op.type == "TensorArrayWriteV3"]
        values = [tf.get_static_value(op.inputs[1]) for op in writes]
        counts = Counter(op.inputs[1].name if value is None else int(value) for op, value in zip(writes, values))
        return max(counts.values(), default=0)


class _Cause(NamedTuple):
    """
    Why operations of some types may not repeat.

    Attributes:
        types: the types.
        reason: a clause about the operation.
        applies: `f(graph, name, node) -> bool`; False if the operation repeats.
        with_one_thread: whether it does so also if each operation has one thread.
        is_switched: whether TensorFlow's switch for deterministic operations makes it repeat.
        since: the first version of TensorFlow.
    """

    types: str
    reason: str
    applies: Callable[[_Graph, str, Any], bool]
    with_one_thread: bool = False
    is_switched: bool = True
    since: tuple[int, int] = (1, 15)


def _has_repeated_rows(graph: _Graph, name: str, node: Any) -> bool:
    kind = node.attr["dtype" if node.op.startswith("Resource") else "T"].type
    is_exact = tf.as_dtype(kind).is_integer and not node.op.endswith("Update")
    rows = graph.size(name, 1)
    if is_exact or (rows is not None and rows < _FEW_ROWS):
        return False
    source = graph.source(name, node, 1)
    return source is None or source.op not in _UNIQUE


def _has_weights(graph: _Graph, name: str, node: Any) -> bool:
    return not tf.as_dtype(node.attr["T"].type).is_integer and graph.size(name, 2) != 0


def _has_several_boxes(graph: _Graph, name: str, node: Any) -> bool:
    return graph.size(name, 1) != 4


def _has_several_terms(graph: _Graph, name: str, node: Any) -> bool:
    return int(node.attr["N"].i) > 2


def _has_several_reads(graph: _Graph, name: str, node: Any) -> bool:
    return graph.most_writes(name) > 2


CAUSES = (
    _Cause(
        r"(Resource)?Scatter(Add|Sub|Mul|Div)",
        "rows that occur several times are added in the order in which threads reach them",
        _has_repeated_rows,
        since=(2, 0),
    ),
    _Cause(
        r"(Resource)?ScatterUpdate",
        "a row that occurs several times gets the value of the thread that comes last",
        _has_repeated_rows,
        since=(2, 0),
    ),
    _Cause(
        r"CropAndResizeGradImage",
        "threads add the gradients of overlapping boxes without waiting for each other, so that some are lost",
        _has_several_boxes,
    ),
    _Cause(r"Bincount|DenseBincount", "weights are added in the order in which threads are free", _has_weights),
    _Cause(
        r"AccumulateNV2",
        "its terms are added in the order in which they are computed",
        _has_several_terms,
        with_one_thread=True,
        is_switched=False,
    ),
    _Cause(
        r"TensorArrayGradV3",
        "the gradients of an element that is read three times or more are added in the order in which they are computed",
        _has_several_reads,
        with_one_thread=True,
        is_switched=False,
    ),
)


def find_not_repeatable(fetches: object, threads: int) -> list[Operation]:
    """
    List the operations of `sess.run(fetches)` whose results may differ between two runs on a CPU.

    Random operations are not listed; see `find_stateful_random_ops`.

    Args:
        fetches: anything that `sess.run` accepts, e.g. `trainer.train_op`.
        threads: the number of threads for each operation.

    Returns:
        The operations, sorted by name. TensorFlow's switch for deterministic operations is taken into account.
    """
    ops = operations_of_fetches(fetches)
    is_switched = TF_VERSION >= (2, 9) and bool(determinism_switches())
    causes = [
        cause for cause in CAUSES if (threads > 1 or cause.with_one_thread) and not (is_switched and cause.is_switched)
    ]
    graph, found = _Graph(ops), []
    for name, node in find_nodes(ops, lambda definition: _find_cause(causes, definition.name) is not None):
        cause = _find_cause(causes, node.op)
        if cause is not None and cause.applies(graph, name, node):
            found.append(Operation(name, cause.reason))
    return sorted(found)


def _find_cause(causes: list[_Cause], kind: str) -> _Cause | None:
    return next((cause for cause in causes if re.fullmatch(cause.types, kind)), None)


def _producer(name: str) -> str:
    return name.split(":")[0]
