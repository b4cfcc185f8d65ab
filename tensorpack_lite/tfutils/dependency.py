"""Functions that find the operations a session run executes."""

from __future__ import annotations

import itertools
import re
from collections import deque
from typing import Any, Callable, Iterable, Iterator, Mapping

from ..compat import tfv1 as tf
from ..compat.private import inside_control_flow
from ..utils.argtools import graph_memoized
from ..utils.naming import CONSUMED_KEY

_UPDATE = re.compile(r"Assign|Apply|Scatter|PartitionedCall|While|^If|^StatelessIf|Case")
_STAGED = re.compile(r"Unstage|StagePeek")
_MAX_VALUES = 20000
_TAKES_DATA = re.compile(r"QueueDequeue|IteratorGetNext")


def dependency_of_targets(
    targets: Iterable[tf.Tensor | tf.Operation | tf.Variable | str], op: tf.Tensor | tf.Operation | str
) -> bool:
    """
    Return whether a run of the targets also runs an operation.

    Args:
        targets: tensors, operations, variables, or their names. If all are names, they are looked up in the
            default graph.
        op: an operation or tensor, or its name.

    Returns:
        True if `op` is a target or a target depends on it, through inputs or control inputs.

    Note: results are cached by name, so edges that are added to existing operations later are not seen.
    """
    targets = list(targets)
    with _graph_of([op, *targets]).as_default():
        names = tuple(sorted({_operation(target).name for target in targets}))
        return _operation(op).name in _names_needed(names)


def dependency_of_fetches(fetches: object, op: tf.Tensor | tf.Operation | str) -> bool:
    """
    Return whether `sess.run(fetches)` runs an operation.

    Args:
        fetches: anything that `sess.run` accepts: nested lists, tuples and dictionaries of tensors, operations,
            variables, sparse tensors and names.
        op: an operation or tensor, or its name.
    """
    return dependency_of_targets(_leaves(fetches), op)


def operations_of_fetches(fetches: object) -> list[tf.Operation]:
    """
    List the operations that `sess.run(fetches)` runs.

    Args:
        fetches: as in `dependency_of_fetches`.

    Returns:
        Operations without duplicates, nearest first.
    """
    leaves = _leaves(fetches)
    with _graph_of(leaves).as_default():
        return operations_needed(map(_operation, leaves))


def operations_needed(targets: Iterable[tf.Operation | tf.Tensor]) -> list[tf.Operation]:
    """
    List the operations that a run of the targets executes.

    Args:
        targets: operations or tensors of one graph.

    Returns:
        The operations of the targets and everything they depend on, without duplicates, nearest first.
    """
    return list(walk((target if isinstance(target, tf.Operation) else target.op for target in targets), all_parents))


def walk(
    ops: Iterable[tf.Operation], follow: Callable[[tf.Operation], Iterable[tf.Operation]]
) -> Iterator[tf.Operation]:
    """Yield operations and all to which `follow` leads from them, each once, the nearest first."""
    found = {op.name: op for op in ops}
    waiting = deque(found.values())
    while waiting:
        op = waiting.popleft()
        yield op
        new = {parent.name: parent for parent in follow(op) if parent.name not in found}
        found.update(new)
        waiting.extend(new.values())


def data_parents(op: tf.Operation) -> list[tf.Operation]:
    """Return the operations whose outputs an operation takes."""
    return [tensor.op for tensor in op.inputs]


def all_parents(op: tf.Operation) -> list[tf.Operation]:
    """Return the operations that run before an operation."""
    return [*data_parents(op), *op.control_inputs]


def elements_in(attributes: dict[str, Any]) -> list[Any]:
    """
    Return the operations and tensors among the attributes of an object, also inside lists, tuples and dicts.

    Users' classes may keep anything, so only the first 20,000 values are looked at.
    """
    found: list[Any] = []
    waiting, seen = deque([attributes]), {id(attributes)}
    for _ in range(_MAX_VALUES):
        if not waiting:
            break
        value: Any = waiting.popleft()
        kind = type(value)  # not `__class__`, which may be a property
        if issubclass(kind, (tf.Operation, tf.Tensor)):
            found.append(value)
        elif issubclass(kind, (dict, list, tuple)):
            base = next(known for known in (dict, list, tuple) if issubclass(kind, known))
            parts = dict.values(value) if base is dict else base.__iter__(value)
            inner = list(itertools.islice(parts, _MAX_VALUES))
            waiting.extend(part for part in inner if id(part) not in seen)
            seen.update(map(id, inner))
    return found


def updates_wait_for_data(train_op: tf.Operation | tf.Tensor) -> bool:
    """
    Return whether a run of a training operation that fails because data is missing has not updated any global variable.

    This is false if several towers take data, and one updates something before another one has its data; with
    StagingInput, whose runs update variables while they take the data of a later step; and if data is taken inside a branch
    or loop, because it is not known how much.

    Args:
        train_op: the operation that a step runs.
    """
    needed = operations_needed([train_op])
    sources = [op for op in needed if _TAKES_DATA.search(op.type)]
    if not sources or any(_STAGED.search(op.type) for op in needed) or any(map(inside_control_flow, sources)):
        return False
    after = [_names_after(source) for source in sources]
    uncounted = [*tf.local_variables(), *tf.get_collection(CONSUMED_KEY)]
    counters = {variable.op.name for variable in uncounted} | {"global_step"}
    candidates = after[0].union(op.name for op in needed)
    updates = {
        op.name
        for op in train_op.graph.get_operations()
        if op.name in candidates and _UPDATE.search(op.type) and op.inputs and op.inputs[0].op.name not in counters
    }
    return all(updates <= names for names in after)


def _names_after(source: tf.Operation) -> set[str]:
    """Return the names of an operation and of all that depend on it."""
    children: dict[str, list[tf.Operation]] = {}
    for op in source.graph.get_operations():
        for parent in all_parents(op):
            children.setdefault(parent.name, []).append(op)
    return {op.name for op in walk([source], lambda op: children.get(op.name, ()))}


@graph_memoized
def _names_needed(target_names: tuple[str, ...]) -> frozenset[str]:
    graph = tf.get_default_graph()
    return frozenset(op.name for op in operations_needed(graph.get_operation_by_name(name) for name in target_names))


def _graph_of(elements: Iterable[tf.Tensor | tf.Operation | tf.Variable | str]) -> tf.Graph:
    """Return the graph of the elements, or the default graph if all of them are names."""
    return next((e.graph for e in elements if hasattr(e, "graph")), None) or tf.get_default_graph()


def _operation(element: tf.Tensor | tf.Operation | tf.Variable | str) -> tf.Operation:
    found = tf.get_default_graph().as_graph_element(element)
    return found if isinstance(found, tf.Operation) else found.op


def _leaves(fetches: object) -> list[tf.Tensor | tf.Operation | tf.Variable | str]:
    if isinstance(fetches, Mapping):
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        return [leaf for value in fetches for leaf in _leaves(value)]
    return [] if fetches is None else tf.nest.flatten(fetches, expand_composites=True)
