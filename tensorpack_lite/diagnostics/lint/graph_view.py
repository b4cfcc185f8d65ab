"""A view of the graph for the rules of lint: which operations depend on which, and where they were created."""

from __future__ import annotations

import os
import re
import sysconfig
from typing import Any, Callable, Collection, Iterable, Iterator

import numpy as np

from ...compat import tfv1 as tf
from ...utils.naming import list_names
from ..data_check.remarks import Remark

ASSIGNS = re.compile(r"^(Ref|Resource)?(Sparse)?(Assign|Apply|Scatter)")
SOURCES = re.compile("Iterator|Dequeue|Placeholder|PyFunc|Random|Unstage|StagePeek|ReadFile|Multinomial")
PASSES_ON = ("Identity", "IdentityN", "Cast", "Reshape", "Squeeze", "ExpandDims", "EnsureShape")
_MAX_CONSTANT = 10**6  # elements of a constant that is examined
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]
_INSTALLED = re.compile(r"-packages[/\\](tensorflow|tensorflow_core|keras|tf_keras|tf_slim)[/\\]")


class GraphView:
    """
    The edges of a graph. Sets of operations are sets of names.

    The edges of an operation are read when a rule first needs them: a list for each of 50,000 operations would start
    Python's garbage collector, which takes longer than all rules.

    Args:
        graph: the graph.

    Attributes:
        operations: all operations by name, in the order in which they were created.
    """

    def __init__(self, graph: tf.Graph) -> None:
        self.operations: dict[str, Any] = {op.name: op for op in graph.get_operations()}

    def before(self, elements: Iterable[Any], *, controls: bool = True) -> set[str]:
        """
        Return the names of the elements' operations, and of all operations on which they depend.

        Args:
            elements: operations and tensors.
            controls: whether to follow control inputs, too.
        """
        found: set[str] = set()
        waiting = [operation(element) for element in elements]
        while waiting:
            op = waiting.pop()
            name = op.name
            if name in found or name not in self.operations:
                continue
            found.add(name)
            waiting.extend(tensor.op for tensor in op.inputs)
            if controls:
                waiting.extend(op.control_inputs)
        return found

    def after(self, names: Iterable[str], passes: Callable[[Any], bool] = lambda _: True) -> set[str]:
        """
        Return the names, and those of all operations that get a value computed from them.

        Args:
            names: names of operations.
            passes: whether to continue behind an operation.
        """
        found: set[str] = set()
        waiting = [self.operations[name] for name in names]
        while waiting:
            op = waiting.pop()
            name = op.name
            if name in found:
                continue
            found.add(name)
            if passes(op):
                waiting += self.consumers(op)
        return found

    def in_order(self, names: Collection[str]) -> Iterator[Any]:
        """Yield the operations of these names, in the order in which they were created."""
        return (op for name, op in self.operations.items() if name in names)

    def consumers(self, op: Any) -> list[Any]:
        """Return the operations that take an output of an operation."""
        return [user for tensor in op.outputs for user in tensor.consumers()]

    def updates(self, variable: tf.Variable) -> list[Any]:
        """Return the operations that change a variable, without those that initialize or restore it."""
        found = []
        for op in self.consumers(variable.op):
            is_initializer = op.name == variable.initializer.name
            if not ASSIGNS.match(op.type) or op.inputs[0].op.name != variable.op.name or is_initializer:
                continue
            value = op.inputs[1] if len(op.inputs) > 1 else None
            if value is None or trace_back(value).op.type != "RestoreV2":
                found.append(op)
        return found

    def is_source(self, name: str) -> bool:
        """Return whether an operation brings in data or random numbers."""
        return SOURCES.search(self.operations[name].type) is not None

    def reads(self, variable: tf.Variable) -> list[Any]:
        """Return the operations that read a variable."""
        checks = ("VarIsInitializedOp", "IsVariableInitialized")
        consumers = self.consumers(variable.op)
        return [op for op in consumers if not ASSIGNS.match(op.type) and op.type not in checks]


def operation(element: Any) -> Any:
    """Return the operation of a tensor or variable; an operation is returned itself."""
    return element if isinstance(element, tf.Operation) else element.op


def trace_back(tensor: tf.Tensor, until: Collection[str] = ()) -> tf.Tensor:
    """
    Return the tensor from which another one is made by changing only its shape or dtype.

    Args:
        tensor: the other one.
        until: names of operations at which to end.
    """
    while tensor.op.type in PASSES_ON and len(tensor.op.inputs) and tensor.op.name not in until:
        tensor = tensor.op.inputs[0]
    return tensor


def computes_same(first: Any, second: Any) -> bool:
    """Return whether two operations compute the same values: equal operations of the same variables, data and constants."""
    waiting, seen = [(first, second)], set()
    while waiting:
        left, right = waiting.pop()
        if left is right or (left.name, right.name) in seen:
            continue
        seen.add((left.name, right.name))
        if left.type != right.type or not _is_function(left) or _attributes(left) != _attributes(right):
            return False
        if [tensor.value_index for tensor in left.inputs] != [tensor.value_index for tensor in right.inputs]:
            return False
        waiting += [(mine.op, theirs.op) for mine, theirs in zip(left.inputs, right.inputs)]
    return True


def _is_function(op: Any) -> bool:
    """Return whether the outputs of an operation follow from its inputs and attributes."""
    if op.op_def is None or (op.op_def.is_stateful and op.type != "ReadVariableOp"):
        return False
    return len(op.inputs) > 0 or op.type == "Const"


def _attributes(op: Any) -> dict[str, Any]:
    return {name: value for name, value in op.node_def.attr.items() if not name.startswith("_")}


def constant_of(tensor: tf.Tensor) -> np.ndarray | None:
    """
    Return the value of a constant from which a tensor is made by changing only its shape or dtype; None if there is none.

    `tf.get_static_value` would forbid to feed the constant, but setters of hyper-parameters feed initial values.
    """
    op = trace_back(tensor).op
    if op.type != "Const" or op.outputs[0].shape.num_elements() > _MAX_CONSTANT:
        return None
    return tf.make_ndarray(op.get_attr("value"))


def place_of(element: Any) -> str:
    """Return `file:line` of the user's code that created an operation; "" if it is unknown."""
    for frame in reversed(list(operation(element).traceback or ())):
        file, line = (frame.filename, frame.lineno) if hasattr(frame, "filename") else frame[:2]
        if not _is_library(file):
            return show_place(file, line)
    return ""


def show_place(file: str, line: int) -> str:
    """Return `file:line`, with a relative path if the file is below the working directory."""
    path = os.path.relpath(file)
    return f"{file if path.startswith(os.pardir) else path}:{line}"


def remark_on(rule: str, elements: Any, text: str, advice: str) -> Remark:
    """Return a remark about an operation, tensor or variable, or about a list of them, with the place of the first one."""
    some = elements if isinstance(elements, list) else [elements]
    names = [operation(element).name for element in some]
    return Remark(rule, list_names(names), text, advice, place_of(some[0]))


def _is_library(file: str) -> bool:
    path = os.path.abspath(file)
    if path.startswith(_OWN_FOLDER + os.sep) or _INSTALLED.search(path) or file.startswith("<"):
        return True
    return path.startswith(_STANDARD_LIBRARY + os.sep) and "-packages" not in path
