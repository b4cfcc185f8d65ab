"""The rule about statistics whose names contradict what they count."""

from __future__ import annotations

import re
from typing import Iterator

from ...compat import tfv1 as tf
from ...utils.direction import better_direction
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

    Source: `ClassificationError` of a vector of right predictions.
    """
    inference = tuple(f"{name}/" for name in training.inference_names)
    for op in training.graph.operations.values():
        name = re.sub(r"_\d+$", "", op.name.rpartition("/")[2]).lower()
        direction = better_direction(name) if _COUNTS.search(name) and len(op.outputs) == 1 else 0
        if not direction or op.name.startswith(inference) or training.is_watching(op.name):
            continue
        counts_right = _counts_right(op.outputs[0])
        if counts_right is not None and counts_right != (direction > 0):
            kinds = ("an accuracy", "wrong") if direction > 0 else ("an error", "right")
            text = f"by its name, it is {kinds[0]}, but it counts {kinds[1]} predictions."
            yield remark_on("G26", op, text, "Rename it, or negate the comparison, e.g. tf.logical_not(right).")


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
