"""The rule about statistics whose names contradict what they count."""

from __future__ import annotations

import re
from typing import Iterator

from ...callbacks.inference import ClassificationError
from ...compat import tfv1 as tf
from ...utils.direction import better_direction, certain_direction
from ..data_check.remarks import Remark
from .graph_view import constant_of, remark_on, trace_back
from .training import ExaminedTraining

_COUNTS = re.compile(r"(?<![a-z])(acc|accuracy|accuracies|correct|err|error|incorrect|wrong)s?\d*(?![a-z])")
_MAX_DEPTH = 12
_COMPARISONS = {"Equal": True, "InTopK": True, "InTopKV2": True, "LogicalXor": False, "NotEqual": False}


def statistic_with_wrong_name(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G26: a statistic called an error counts right predictions, or one called an accuracy counts wrong ones.

    Why: the curve has the wrong direction, and a saver of the best model keeps the worst one.

    Reports a tensor of the first training tower whose name has one of these words, if it is made of a comparison that is
    averaged, negated or subtracted from 1.

    Reports the name that a `ClassificationError` has, too.

    Source: `ClassificationError` of a vector of right predictions.
    """
    inference = tuple(f"{name}/" for name in training.inference_names)
    for op in training.graph.operations.values():
        direction = _direction(op.name) if len(op.outputs) == 1 else 0
        if not direction or op.name.startswith(inference) or training.is_watching(op.name):
            continue
        value = op.outputs[0]
        if op.type == "ScalarSummary":
            value = trace_back(op.inputs[1])
            if _direction(value.op.name) == direction:
                continue  # the tensor has the remark
        counts_right = _counts_right(value)
        if counts_right is not None and counts_right != (direction > 0):
            yield remark_on(
                "G26", op, _describe(direction), "Rename it, or negate the comparison, e.g. tf.logical_not(right)."
            )
    yield from _inferencers_with_wrong_names(training)


def _inferencers_with_wrong_names(training: ExaminedTraining) -> Iterator[Remark]:
    operations = training.graph.operations
    for runner in training.runners:
        for inferencer in runner.infs:
            if type(inferencer) is not ClassificationError:
                continue
            name, vector = inferencer.summary_name, inferencer.wrong_tensor_name.partition(":")[0]
            direction, meant = certain_direction(name), _direction(vector)
            found = [operations[path] for path in operations if path == vector or path.endswith(f"/{vector}")]
            counts = {_counts_right(op.outputs[0]) for op in found if op.outputs} - {None}
            counts_right = counts == {True} if counts else meant > 0
            is_told = len(counts) == 1 or (not counts and meant)
            # a vector whose own name is wrong has its remark
            if (
                _COUNTS.search(name)
                and direction
                and is_told
                and counts_right != (direction > 0)
                and counts_right == (meant > 0)
            ):
                yield Remark(
                    "G26", name, _describe(direction), "Rename it in ClassificationError, or negate the vector."
                )


def _direction(name: str) -> int:
    """Return the direction of a statistic, by the name of its operation; 0 if it is not one that counts."""
    name = re.sub(r"_\d+$", "", name.rpartition("/")[2]).lower()
    return better_direction(name) if _COUNTS.search(name) else 0


def _describe(direction: int) -> str:
    kinds = ("an accuracy", "wrong") if direction > 0 else ("an error", "right")
    return f"by its name, it is {kinds[0]}, but it counts {kinds[1]} predictions."


def _counts_right(tensor: tf.Tensor, depth: int = _MAX_DEPTH) -> bool | None:
    """Return whether a tensor is larger for right predictions, or smaller; None if it is not known."""
    op = trace_back(tensor).op
    if depth == 0 or not op.inputs:
        return None
    constants = [constant_of(factor) for factor in op.inputs[:2]]
    if op.type in ("Mean", "Sum", "DivNoNan", "RealDiv", "Div", "LogicalNot"):
        inner = _counts_right(op.inputs[0], depth - 1)
        return inner if inner is None or op.type != "LogicalNot" else not inner
    if op.type in ("Mul", "Sub") and sum(constant is not None for constant in constants) == 1:
        index = 1 if constants[0] is not None else 0
        inner = _counts_right(op.inputs[index], depth - 1)
        is_flipped = op.type == "Sub" and index == 1
        return inner if inner is None or not is_flipped else not inner
    if op.type not in _COMPARISONS:
        return None
    is_whole = any(_is_whole(trace_back(value)) for value in op.inputs)
    is_ranked = op.type.startswith("InTopK")
    return _COMPARISONS[op.type] if is_ranked or (is_whole and constants == [None, None]) else None


def _is_whole(tensor: tf.Tensor) -> bool:
    return tensor.dtype.is_integer or tensor.dtype.is_bool or tensor.op.type in ("Rint", "Round", "Sign")
