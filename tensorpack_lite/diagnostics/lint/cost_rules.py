"""Rules about what a cost is computed from: shapes that do not fit, and inputs, regularization and wrappers that are missing."""

from __future__ import annotations

import re
from typing import Any, Collection, Iterator

from ...compat import tfv1 as tf
from ...tfutils.dependency import elements_in
from ...tfutils.loss_scale import DynamicLossScaleOptimizer
from ...tfutils.proxy_optimizer import ProxyOptimizer, created_wrappers
from ...utils.naming import MOVING_SUMMARY_OPS_KEY, list_names
from ..data_check.remarks import Remark
from .graph_view import computes_same, constant_of, place_of, remark_on, trace_back
from .losses import find_cross_entropies
from .training import ExaminedTraining

_BINARY = ("Div", "DivNoNan", "Maximum", "Minimum", "Mul", "RealDiv", "SquaredDifference", "Sub")
_RESHAPES = ("Cast", "ExpandDims", "Identity", "Reshape", "Squeeze", "StridedSlice", "Transpose")
_OF_SHAPE = ("OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike")
_NORMS = ("Abs", "L2Loss", "Norm", "Square")
_SUMS = ("Add", "AddN", "AddV2", "Identity", "L2Loss", "Mul", "Sum")
_REGULARIZATION = re.compile(r"regulari[sz]|weight_?decay|(^|_)wd(_|$)|(^|_)(l1|l2)(_|$)")


def crossed_shapes(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G25: in the cost, a prediction [N, 1] meets labels or weights [N] or [1, N], or the reverse, which gives [N, N].

    Why: broadcasting compares each prediction with all labels, so the model learns the mean of the labels.

    Reports only a tensor that depends on trainable variables with one that depends on the data alone. Two predictions, or
    two labels, are often paired on purpose.

    Source: regressions whose cost stays at the variance of the labels.
    """
    variables = {variable.op.name for variable in tf.trainable_variables()}
    for op in training.graph.in_order(_without_gradients(training)):
        if op.type not in _BINARY or not _are_crossed(*op.inputs):
            continue
        befores = [training.graph.before([tensor]) for tensor in op.inputs]
        is_prediction = [bool(before & variables) for before in befores]
        is_data = [any(map(training.graph.is_source, before)) for before in befores]
        is_row = len({tensor.shape.rank for tensor in op.inputs}) == 1
        is_range = is_row and any(training.graph.operations[name].type == "Range" for name in set.union(*befores))
        if sorted(is_prediction) == [False, True] and all(is_data) and not is_range:
            shapes = " meets ".join(_show_shape(tensor, training.input_names) for tensor in op.inputs)
            text = f"{shapes}, which gives [N, N]: each prediction meets all labels."
            yield remark_on("G25", op, text, "Give both the same shape, e.g. with tf.squeeze(x, axis=1).")


def _without_gradients(training: ExaminedTraining) -> Collection[str]:
    """Return the names of the operations of the cost, or if the trainer does not know it, those of a step."""
    return training.before_cost or {name for name in training.step if "gradients" not in name}


def _are_crossed(first: tf.Tensor, second: tf.Tensor) -> bool:
    """Return whether one shape is [N, 1], and the other one [N] or a [1, N] made of N samples, with N above 1 or unknown."""
    if first.shape.rank == second.shape.rank == 2:
        column, row = sorted((first, second), key=lambda tensor: tensor.shape.as_list()[0] == 1)
        size, width = row.shape.as_list()
        return size == 1 and column.shape.as_list() == [width, 1] and width != 1 and _row_of(row) is not None
    if {first.shape.rank, second.shape.rank} != {1, 2}:
        return False
    vector, column = sorted((first.shape.as_list(), second.shape.as_list()), key=len)
    return column[1] == 1 and column[0] == vector[0] != 1


def _row_of(tensor: tf.Tensor) -> tf.Tensor | None:
    """Return the vector [N] or column [N, 1] from which a row [1, N] is made by changing its shape; None if there is none."""
    while tensor.shape.rank != 1 and tensor.shape[1:].as_list() != [1]:
        if tensor.op.type not in _RESHAPES or tensor.shape.rank is None:
            return None
        tensor = tensor.op.inputs[0]
    return tensor


def _show_shape(tensor: tf.Tensor, input_names: dict[str, str]) -> str:
    sizes = ["N" if size is None else str(size) for size in tensor.shape.as_list()]
    return f"'{input_names.get(tensor.name, tensor.op.name)}' [{', '.join(sizes)}]"


def unused_regularization(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G09: a regularization cost was created, and no training step depends on it.

    Why: the weights are not regularized, although the cost may be among the statistics.

    Finds the members of `REGULARIZATION_LOSSES`, and norms of trainable variables that are multiplied by a constant or whose
    name says regularization.

    Source: `wd_cost = regularize_cost(...)`, and then `return loss`.
    """
    if not training.targets:
        return
    operations, is_elsewhere = training.graph.operations, _elsewhere(training)
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    names = [getattr(loss, "name", "").partition(":")[0] for loss in losses]  # a script may collect numbers
    unused = [name for name in names if name and not name.startswith(is_elsewhere) and not _is_added(training, name)]
    if unused:
        text, advice = "the cost does not have this regularization.", "Add regularize_cost_from_collection() to it."
        place = place_of(operations[unused[0]]) if unused[0] in operations else ""
        yield Remark("G09", list_names(unused), text, advice, place)
        return
    variables = {variable.op.name for variable in tf.trainable_variables()}
    others = {variable.op.name for variable in [*tf.global_variables(), *tf.local_variables()]} - variables
    is_regularized = {found for name in training.step for found in _variable_in_norm(operations[name])}
    found = {}
    for name, op in operations.items():
        if name in training.step or name.startswith(is_elsewhere) or not _may_regularize(op):
            continue
        before = training.graph.before([op])
        is_norm = any(operations[inner].type in _NORMS for inner in before)
        is_of_data = any(map(training.graph.is_source, before))
        # Keras computes a loss that is used once more
        forgotten = (before & variables) - is_regularized
        if is_norm and not is_of_data and forgotten and not before & others and not _is_added(training, name):
            found[name] = op
    outer = [op for op in found.values() if not any(user.name in found for user in training.graph.consumers(op))]
    if outer:
        text = "the cost does not have this regularization."
        yield remark_on("G09", outer, text, "Add it to the cost that build_graph returns, or remove it.")


def _elsewhere(training: ExaminedTraining) -> tuple[str, ...]:
    """Return the beginnings of the names of operations outside of the first tower: their costs are not computed, only gradients."""
    names = [*training.inference_names, *(tower.ns_name for tower in training.towers[1:])]
    return tuple(f"{name}/" for name in names)


def _is_added(training: ExaminedTraining, name: str) -> bool:
    """Return whether the cost depends on an operation; if the trainer does not know its costs, whether a value of the data does."""
    # TensorFlow 2 computes a loss from inside a condition again where it is used, under the same name
    operations = training.graph.operations
    if name in training.step or name not in operations:
        return name in training.step
    # tf.get_variable(regularizer=...) collects a loss that is computed again by whatever adds it
    op = operations[name]
    if any(user.type == op.type and computes_same(user, op) for user in training.graph.in_order(training.step)):
        return True
    if training.cost is not None:
        return False
    sums = [op for op in training.graph.in_order(training.graph.after([name])) if op.type in _SUMS]
    return any(training.graph.is_source(before) for op in sums for before in training.graph.before([op]))


def _variable_in_norm(op: Any) -> list[str]:
    """Return the name of the variable whose norm an operation computes, in a list; empty if it computes anything else."""
    if op.type not in _NORMS:
        return []
    source = trace_back(op.inputs[0]).op
    return [(source.inputs[0] if source.type == "ReadVariableOp" else source).name.partition(":")[0]]


def _may_regularize(op: Any) -> bool:
    if op.type not in _SUMS or op.outputs[0].shape.rank != 0 or not op.outputs[0].dtype.is_floating:
        return False
    if _REGULARIZATION.search(op.name.rpartition("/")[2]):
        return True
    return op.type == "Mul" and any(_is_small(tensor) for tensor in op.inputs)


def _is_small(tensor: tf.Tensor) -> bool:
    constant = constant_of(tensor)
    return constant is not None and 0 < float(constant) < 1


def input_without_use(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G02: no training step and no statistic depends on an input of the model.

    Why: a mask, weights or a second image were forgotten, or another input is used in their place. The shape of an input alone
    does not count.

    Does not report strings, inputs that inference uses, or names that begin with "unused". Reports labels, which are integers
    [N] or numbers, only if a mask of them is computed and not used, or the model's own predictions are the labels.

    Source: models with two inputs that read one of them twice.
    """
    if not training.targets or not training.towers:
        return
    fetched = [element for cb in training.callbacks for element in elements_in(vars(cb))]
    statistics = [*tf.get_collection(tf.GraphKeys.SUMMARIES), *tf.get_collection(MOVING_SUMMARY_OPS_KEY)]
    needed = training.step | training.graph.before([*fetched, *statistics])
    tower_func: Any = training.trainer.tower_func
    tensors = [training.towers[0].inputs, *(tower.inputs for tower in tower_func.towers.inference())]
    if any(len(inputs) != len(training.signature) for inputs in tensors):
        return
    for spec, trained, *others in zip(training.signature, *tensors):
        behind = training.graph.after([op.name for op in trained.consumers()], lambda op: op.type not in _OF_SHAPE)
        values = {name for name in behind & needed if training.graph.operations[name].type not in _OF_SHAPE}
        is_used = values or any(tensor.consumers() for tensor in others)
        if is_used or (spec.name or "unused").startswith("unused"):
            continue
        if not _is_for_training(spec) and spec.dtype.is_integer and _is_forgotten(training, behind):
            text = "nothing depends on what the model computes from this input."
            yield Remark("G02", spec.name, text, "Use the result, or remove it.")
        elif not _is_for_training(spec) and spec.dtype.is_integer and _learns_own_predictions(training):
            text = "nothing depends on this input, and the labels of the cross entropy are the argmax of the logits."
            yield Remark("G02", spec.name, text, "Give the labels to the cross entropy.")
        elif _is_for_training(spec):
            text = "neither the cost nor a statistic depends on this input, or only on its shape."
            advice = f"Use it in build_graph, remove it from inputs(), or call it unused_{spec.name}."
            yield Remark("G02", spec.name, text, advice)


def _is_for_training(spec: Any) -> bool:
    return spec.dtype.is_floating or (spec.dtype.is_integer and spec.shape.rank not in (0, 1))


def _is_forgotten(training: ExaminedTraining, names: Collection[str]) -> bool:
    """Return whether some operations, on which nothing depends, multiply or select values of the model, e.g. with a mask."""
    variables = {variable.op.name for variable in tf.trainable_variables()}
    for op in training.graph.in_order(names):
        values = [tensor for tensor in op.inputs if tensor.op.name not in names and tensor.shape.rank not in (0, 1)]
        if op.type in ("Mul", "Select", "SelectV2") and training.graph.before(values) & variables:
            return True
    return False


def _learns_own_predictions(training: ExaminedTraining) -> bool:
    """Return whether the labels of a cross entropy are the argmax of its logits."""
    for loss in find_cross_entropies(training.graph, training.before_cost):
        labels = trace_back(loss.labels) if loss.labels is not None else loss.logits
        if labels.op.type == "OneHot":
            labels = trace_back(labels.op.inputs[0])
        if labels.op.type == "ArgMax":
            scores = trace_back(labels.op.inputs[0])
            scores = trace_back(scores.op.inputs[0]) if scores.op.type in ("Softmax", "Sigmoid") else scores
            if scores is trace_back(loss.logits):
                return True
    return False


def wrapper_without_use(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G27: an optimizer was wrapped, e.g. to clip gradients, and the model returns the inner one.

    Why: the wrapper has no effect.

    Looks at the model that `launch_train_with_config` trains.

    Source: `clip_by_global_norm(opt, 1.0)` without `opt =` before it.
    """
    model = training.trainer.model
    used: set[int] = set()
    for optimizer in getattr(model, "__dict__", {}).get("_MEMOIZED_CACHE", {}).values():
        if isinstance(optimizer, tf.train.Optimizer):
            used |= set(map(id, _chain(optimizer)))
    for wrapper in created_wrappers():
        chain = _chain(wrapper)
        is_of_precision = any(isinstance(inner, DynamicLossScaleOptimizer) for inner in chain)
        if id(wrapper) not in used and id(chain[-1]) in used and not is_of_precision:
            text = f"{wrapper.get_name()} wraps {chain[-1].get_name()}, which optimizer() returns without it."
            yield Remark("G27", wrapper.get_name(), text, "Return the wrapper: opt = wrapper(opt, ...); return opt.")


def _chain(optimizer: Any) -> list[Any]:
    """Return an optimizer and those inside it."""
    chain = [optimizer]
    while isinstance(chain[-1], ProxyOptimizer):
        chain.append(chain[-1]._opt)
    return chain
