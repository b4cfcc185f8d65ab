"""
The layers of a model, from the graph of its training.

The graph is copied with an input of known shape, so that TensorFlow infers the shapes of all tensors for one batch. Nothing is
computed, and the graph of the training does not change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...compat import tfv1 as tf
from ...loop.trainer import LoopTrainer
from ...tfutils.flops import count_flops, num_elements
from ...tfutils.model_utils import static_bytes
from ...tfutils.sessinit import JustCurrentSession
from ..lint.graph_view import GraphView
from ..lint.training import ExaminedTraining

_ALIASES = (
    "Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "CheckNumerics", "PreventGradient",
)  # fmt: skip
_OTHERS = "others"
_SMALL = 0.001  # of all operations


class Layer(NamedTuple):
    """
    One row.

    Attributes:
        name: the name scope, relative to the tower.
        shape: the shape of the output, with "?" for the batch; None if the layer has none.
        parameters: the number of elements of its trainable variables.
        flops: floating-point operations per sample in inference; None if a shape is not known.
        kept: bytes per sample that training keeps for the gradients; None if a shape is not known.
    """

    name: str
    shape: list[Any] | None
    parameters: int
    flops: int | None
    kept: int | None


class Summary(NamedTuple):
    """
    The summary of a model.

    Attributes:
        layers: the rows.
        batch: the number of samples in a batch of one tower; None if the graph does not know it.
        parameters: the number of elements of all trainable variables.
        parameter_bytes: their size.
        other_bytes: the size of all other variables, such as those of the optimizer.
        flops, kept: the sums over the layers; None if one is not known.
        inference_bytes: the largest total size of tensors per sample that are needed at the same time without gradients.
    """

    layers: list[Layer]
    batch: int | None
    parameters: int
    parameter_bytes: int
    other_bytes: int
    flops: int | None
    kept: int | None
    inference_bytes: int | None


def summarize(trainer: LoopTrainer) -> Summary:
    """
    Summarize the model of a training whose callbacks are set up. With several towers, the first one counts.

    Raises:
        ValueError: the trainer has no training tower or no cost.
    """
    training = ExaminedTraining(trainer, JustCurrentSession())
    if not training.towers or training.cost is None:
        raise ValueError(
            f"ModelSummary: {trainer.__class__.__name__} has no training tower with a cost (expected a trainer such as SimpleTrainer)."
        )
    return _Counter(training).summarize()


class _Counter:
    """The copy of a graph, and the sets of its operations that count."""

    def __init__(self, training: ExaminedTraining) -> None:
        tower = training.towers[0]
        self._prefix = f"{tower.ns_name}/" if tower.ns_name else ""
        graph = tf.get_default_graph()
        sizes = [tensor.shape.as_list()[0] for tensor in tower.inputs if tensor.shape.rank]
        self.batch: int | None = sizes[0] if sizes else None
        with tf.Graph().as_default() as copy:
            inputs = {tensor.name: _placeholder(tensor) for tensor in tower.inputs}
            tf.import_graph_def(graph.as_graph_def(), input_map=inputs, name="")
        view = GraphView(copy)
        forward = view.before([copy.get_tensor_by_name(training.cost.name)], controls=False)
        moving = view.after([tensor.op.name for tensor in inputs.values()])
        self._forward = forward
        self._operations = list(view.in_order(forward & moving))
        self._backward = {name for name in training.step if name in view.operations} - forward
        variables = {variable.op.name: variable for variable in tf.trainable_variables()}
        self._variables = {name: variable for name, variable in variables.items() if name in forward}
        self._scopes = {name.rpartition("/")[0] for name in self._variables}

    def summarize(self) -> Summary:
        members: dict[str, list[Any]] = {}
        for op in self._operations:
            members.setdefault(self._layer_of(op.name), []).append(op)
        for name in self._variables:
            members.setdefault(name.rpartition("/")[0], [])
        layers = [self._describe(name, operations) for name, operations in members.items()]
        total = _sum(layer.flops for layer in layers)
        shown = [
            layer for layer in layers if layer.name and (layer.parameters or (layer.flops or 0) > _SMALL * (total or 0))
        ]
        small = [layer for layer in layers if layer not in shown]
        if small:
            sums = (_sum(layer.flops for layer in small), _sum(layer.kept for layer in small))
            shown.append(Layer(_OTHERS, None, sum(layer.parameters for layer in small), *sums))
        parameters = self._variables.values()
        size = sum(map(static_bytes, parameters))
        return Summary(
            shown,
            self.batch,
            sum(int(variable.shape.num_elements() or 0) for variable in parameters),
            size,
            sum(map(static_bytes, tf.global_variables())) - size,
            total,
            _sum(layer.kept for layer in shown),
            self._peak(),
        )

    def _layer_of(self, name: str) -> str:
        """Return the layer of an operation: the longest scope with variables around it, or else one without any inside."""
        inner = name[len(self._prefix) :] if name.startswith(self._prefix) else name
        scopes = inner.split("/")[:-1]
        paths = ["/".join(scopes[:end]) for end in range(len(scopes), 0, -1)]
        for path in paths:
            if path in self._scopes:
                return path
        for path in reversed(paths):
            if not any(scope.startswith(f"{path}/") for scope in self._scopes):
                return path
        return paths[0] if paths else ""

    def _describe(self, name: str, operations: list[Any]) -> Layer:
        variables = [variable for key, variable in self._variables.items() if key.rpartition("/")[0] == name]
        flops = _sum(count_flops(op) for op in operations)
        kept = _sum(_bytes(tensor) for tensor in self._kept(operations))
        return Layer(
            name,
            self._output_shape(name, operations),
            sum(int(variable.shape.num_elements() or 0) for variable in variables),
            self._per_sample(flops),
            self._per_sample(kept),
        )

    def _kept(self, operations: list[Any]) -> list[Any]:
        """Return the outputs of operations that the gradients read, directly or with another shape."""
        return [
            tensor
            for op in operations
            if op.type not in _ALIASES
            for tensor in op.outputs
            if self._is_read_by_gradients(tensor)
        ]

    def _is_read_by_gradients(self, tensor: Any) -> bool:
        for user in tensor.consumers():
            if user.name in self._backward and user.type not in ("Shape", "ShapeN", "Size"):
                return True
            if user.type in _ALIASES and user.name in self._forward and self._is_read_by_gradients(user.outputs[0]):
                return True
        return False

    def _output_shape(self, name: str, operations: list[Any]) -> list[Any] | None:
        for op in reversed(operations):
            for tensor in op.outputs:
                users = [consumer for consumer in tensor.consumers() if consumer.name in self._forward]
                is_used = any(self._layer_of(consumer.name) != name for consumer in users)
                if is_used and tensor.dtype.is_floating and tensor.shape.rank:
                    shape: list[Any] = tensor.shape.as_list()
                    return ["?", *shape[1:]]
        return None

    def _peak(self) -> int | None:
        """Return the largest size of tensors that are alive at the same time, in the order in which operations were created."""
        last = {}
        for number, op in enumerate(self._operations):
            for tensor in op.inputs:
                last[_root(tensor).name] = number
        ends: dict[int, int] = {}
        alive = peak = 0
        for number, op in enumerate(self._operations):
            for tensor in op.outputs if op.type not in _ALIASES else ():
                size = _bytes(tensor)
                if size is None:
                    return None
                alive += size
                end = last.get(tensor.name, number)
                ends[end] = ends.get(end, 0) + size
            peak = max(peak, alive)
            alive -= ends.pop(number, 0)
        return self._per_sample(peak)

    def _per_sample(self, number: int | None) -> int | None:
        return None if number is None else -(-number // (self.batch or 1))


def _placeholder(tensor: Any) -> Any:
    """Return a placeholder for an input, of one sample if the size of the batch is not known."""
    shape = tensor.shape.as_list() if tensor.shape.rank is not None else None
    if shape:
        shape = [1 if shape[0] is None else shape[0], *shape[1:]]
    return tf.placeholder(tensor.dtype, shape, name=f"{tensor.op.name}-summary")


def _root(tensor: Any) -> Any:
    while tensor.op.type in _ALIASES:
        tensor = tensor.op.inputs[0]
    return tensor


def _bytes(tensor: Any) -> int | None:
    if tensor.op.type.startswith("FusedBatchNorm") and tensor is not tensor.op.outputs[0]:
        return 0  # moments, and one without a shape
    num = num_elements(tensor)
    return None if num is None else num * max(1, int(tensor.dtype.size or 1))


def _sum(numbers: Any) -> int | None:
    known = list(numbers)
    return None if None in known else sum(known)
