"""Search for the images, labels and logits of a tower that classifies images."""

from __future__ import annotations

from typing import Any, Collection, NamedTuple

from ...compat import tfv1 as tf
from ...tfutils.tower.handle import TowerTensorHandle
from ..lint.graph_view import GraphView, constant_of, trace_back
from ..lint.losses import CrossEntropy, find_cross_entropies

_MAX_CLASSES = 2000
_MIN_SIDE, _MAX_SIDE = 4, 4096
_CHANNELS = (1, 3, 4)


class Classification(NamedTuple):
    """
    The tensors of a tower that classifies images.

    Attributes:
        image: an input of the tower, `[N, H, W]`, `[N, H, W, C]` or `[N, C, H, W]`.
        label: an input of the tower, integers `[N]`.
        logits: `[N, K]`; of a binary sigmoid `[N]` or `[N, 1]`.
        is_sigmoid: whether each logit has its own sigmoid.
    """

    image: tf.Tensor
    label: tf.Tensor
    logits: tf.Tensor
    is_sigmoid: bool


def find_classification(tower: TowerTensorHandle) -> Classification | None:
    """
    Find what a tower classifies.

    Returns:
        None unless the tower returns a cost with exactly one cross entropy, whose labels are an input of integers `[N]`, or
        made from it by `tf.one_hot`, and whose logits depend on exactly one input of images and not on the labels.
    """
    cost: Any = tower.outputs
    images = [tensor for tensor in tower.inputs if _may_be_images(tensor)]
    labels = [tensor for tensor in tower.inputs if tensor.dtype.is_integer and tensor.shape.rank == 1]
    if not images or not labels or not isinstance(cost, tf.Tensor):
        return None
    graph = GraphView(tower.graph)
    losses = list(find_cross_entropies(graph, graph.before([cost], controls=False)))
    if len(losses) != 1:
        return None
    label = _find_label(losses[0], {tensor.op.name for tensor in tower.inputs})
    logits = losses[0].logits
    before = graph.before([logits], controls=False)
    images = [tensor for tensor in images if _is_used(tensor, before)]
    if (
        len(images) != 1
        or label is None
        or label.name not in [tensor.name for tensor in labels]
        or _is_used(label, before)
    ):
        return None
    return Classification(images[0], label, logits, losses[0].function.startswith("sigmoid"))


def _may_be_images(tensor: tf.Tensor) -> bool:
    shape, dtype = tensor.shape, tensor.dtype
    if shape.rank not in (3, 4) or not (dtype.is_integer or dtype.is_floating or dtype.is_bool):
        return False
    sides = shape.as_list()[1:]
    if shape.rank == 4:
        channels = sides.pop(2) if sides[2] in _CHANNELS or sides[0] not in _CHANNELS else sides.pop(0)
        if channels not in (None, *_CHANNELS):
            return False
    return all(side is None or _MIN_SIDE <= side <= _MAX_SIDE for side in sides)


def _find_label(loss: CrossEntropy, inputs: Collection[str]) -> tf.Tensor | None:
    """Return the class numbers of a cross entropy; None if its shapes or its labels have another form."""
    num_classes = _num_classes(loss.logits)
    if loss.labels is None or num_classes is None or num_classes > _MAX_CLASSES:
        return None
    source = _source_of(loss.labels, inputs)
    is_binary = num_classes == 1 and loss.function.startswith("sigmoid")
    if is_binary or loss.function.startswith("sparse"):
        return source
    if source.op.type != "OneHot" or source.shape.rank != 2 or source.shape.as_list()[1] != num_classes:
        return None
    on_value, off_value = map(constant_of, source.op.inputs[2:4])
    if on_value is None or off_value is None or on_value <= off_value or source.op.get_attr("axis") not in (-1, 1):
        return None
    return _source_of(source.op.inputs[0], inputs)


def _num_classes(logits: tf.Tensor) -> int | None:
    """Return the number of classes, 1 for logits `[N]`; None if it is not known."""
    if logits.op.type == "Reshape" and logits.shape.as_list()[1:] == [None]:
        logits = logits.op.inputs[0]  # tf.nn.softmax_cross_entropy_with_logits
    shape = logits.shape
    return shape.as_list()[1] if shape.rank == 2 else 1 if shape.rank == 1 else None


def _source_of(tensor: tf.Tensor, inputs: Collection[str]) -> tf.Tensor:
    """Return the tensor from which another one is made by changing only its shape, dtype or gradient."""
    tensor = trace_back(tensor, inputs)
    while tensor.op.type == "StopGradient" and tensor.op.name not in inputs:
        tensor = trace_back(tensor.op.inputs[0], inputs)
    return tensor


def _is_used(tensor: tf.Tensor, names: Collection[str]) -> bool:
    """Return whether one of some operations takes a tensor."""
    return any(op.name in names for op in tensor.consumers())
