"""Description of a training graph, to compare the ranks of a training, and two training runs."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any, Sequence

from ..compat import tfv1 as tf

_UPDATE = re.compile("(Resource)?(Sparse)?Apply")
_GRADIENTS = ("delta", "grad")  # the names of these inputs
_PASSES_ON = ("Identity", "Cast", "ReadVariableOp")


def describe_operations(operations: Sequence[tf.Operation]) -> dict[str, str]:
    """
    Return the type and the inputs of each operation, by name.

    They contain neither the values of constants nor attributes such as seeds, in which ranks may differ.
    """
    return {op.name: " ".join([op.type, *(tensor.name for tensor in op.inputs)]) for op in operations}


def describe_graph(graph: tf.Graph, num_operations: int) -> dict[str, Any]:
    """
    Describe a training graph. Any thread may call this function.

    Args:
        graph: the graph, finalized.
        num_operations: the number of its first operations, without those of callbacks.

    Returns:
        "fingerprint": a digest of `describe_operations`; "operations": the number of operations by type; "variables" and
        "variables of callbacks": dtype, shape and whether it is trainable, by name; "optimizer": the scalar inputs of
        the operations that update variables, such as learning rates, by type of operation.
    """
    operations = graph.get_operations()[:num_operations]
    described = describe_operations(operations)
    trainable = {variable.op.name for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    initial: dict[str, Any] = {}
    variables: dict[bool, dict[str, Any]] = {True: {}, False: {}}
    for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
        name = variable.op.name
        shape = variable.shape.as_list() if variable.shape.rank is not None else None
        kind = [variable.dtype.base_dtype.name, shape, name in trainable]
        variables[name in described][name] = kind
        initial[name] = variable.initial_value
    return {
        "fingerprint": hashlib.sha256(repr(list(described.items())).encode("utf-8")).hexdigest(),
        "operations": dict(sorted(Counter(op.type for op in operations).items())),
        "variables": variables[True],
        "variables of callbacks": variables[False],
        "optimizer": _describe_updates([op for op in operations if _UPDATE.match(op.type)], initial),
    }


def _describe_updates(updates: Sequence[tf.Operation], initial: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for op in updates:
        names = [argument.name for argument in op.op_def.input_arg]
        inputs = {
            name: _scalar(tensor, initial)
            for name, tensor in zip(names, op.inputs)
            if tensor.dtype.is_floating and tensor.shape.rank == 0 and name not in _GRADIENTS
        }
        if inputs not in found.setdefault(op.type, []):
            found[op.type].append(inputs)
    return found


def _scalar(tensor: tf.Tensor, initial: dict[str, Any]) -> Any:
    """Return the value of a constant, the name and initial value of a variable, or the name of an operation."""
    op = tensor.op
    while op.type in _PASSES_ON:
        op = op.inputs[0].op
    if op.type == "Const":
        return _constant(op)
    value = initial.get(op.name)
    if value is None or value.op.type != "Const":
        return op.name
    return f"{op.name}, initially {_constant(value.op)}"


def _constant(op: tf.Operation) -> float:
    return float(f"{float(tf.make_ndarray(op.get_attr('value'))):.7g}")
