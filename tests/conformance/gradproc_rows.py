"""The table of gradient processors: for each public one, how to create it and its result in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict

import numpy as np

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils import gradproc

__all__ = ["NO_ROW", "ROWS", "Row"]

Arrays = Dict[str, np.ndarray]


@dataclass
class Row:
    """
    One way to create a processor, and its expected results.

    `oracle` maps gradients, by the names of their variables, to the processed ones in float64, without the dropped ones.
    `keeps_none` is whether pairs without a gradient stay.
    """

    name: str
    case: str
    make: Callable[[], Any]
    oracle: Callable[[Arrays], Arrays]
    keeps_none: bool

    def __str__(self) -> str:
        return f"{self.name}-{self.case}"


def _same(grads: Arrays) -> Arrays:
    return grads


def _clip(norm: float) -> Callable[[Arrays], Arrays]:
    def clip(grads: Arrays) -> Arrays:
        joint = np.sqrt(sum(np.sum(grad**2) for grad in grads.values()))
        return {name: grad * norm / max(joint, norm) for name, grad in grads.items()}

    return clip


def _scale(**factors: float) -> Callable[[Arrays], Arrays]:
    def scale(grads: Arrays) -> Arrays:
        last = {name: name.split("/")[-1] for name in grads}
        kept = {name: grad for name, grad in grads.items() if factors.get(last[name], 1)}
        return {name: grad * factors.get(last[name], 1) for name, grad in kept.items()}

    return scale


def _each(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of gradients of both kinds from a function of tensors."""

    def apply(grad: Any) -> Any:
        if isinstance(grad, tf.IndexedSlices):
            return tf.IndexedSlices(function(grad.values), grad.indices, grad.dense_shape)
        return None if grad is None else function(grad)

    return apply


ROWS = [
    Row("FilterNoneGrad", "quiet", lambda: gradproc.FilterNoneGrad(verbose=False), _same, False),
    Row("FilterNoneGrad", "verbose", gradproc.FilterNoneGrad, _same, False),
    Row("GlobalNormClip", "below", lambda: gradproc.GlobalNormClip(1e3), _clip(1e3), True),
    Row("GlobalNormClip", "above", lambda: gradproc.GlobalNormClip(0.5), _clip(0.5), True),
    Row(
        "MapGradient",
        "all",
        lambda: gradproc.MapGradient(_each(lambda x: tf.clip_by_value(x, -0.1, 0.2))),
        lambda grads: {name: np.clip(grad, -0.1, 0.2) for name, grad in grads.items()},
        False,
    ),
    Row(
        "MapGradient",
        "some",
        lambda: gradproc.MapGradient(_each(lambda x: -x), regex=".*/b"),
        lambda grads: {name: -grad if name.endswith("/b") else grad for name, grad in grads.items()},
        True,
    ),
    Row("MapGradient", "drop", lambda: gradproc.MapGradient(lambda grad: None, ".*/b"), _scale(b=0), True),
    Row("SummaryGradient", "all", gradproc.SummaryGradient, _same, False),
    Row("SummaryGradient", "some", lambda: gradproc.SummaryGradient(".*/W", ["mine"]), _same, True),
    Row("PrintGradient", "all", gradproc.PrintGradient, _same, False),
    Row("PrintGradient", "some", lambda: gradproc.PrintGradient(".*/W"), _same, True),
    Row("CheckGradient", "all", gradproc.CheckGradient, _same, False),
    Row(
        "ScaleGradient",
        "two",
        lambda: gradproc.ScaleGradient([(".*/W", 0.25), (".*/b", 2.0)], verbose=False),
        _scale(W=0.25, b=2.0),
        False,
    ),
    Row("ScaleGradient", "drop", lambda: gradproc.ScaleGradient((".*/b", 0.0)), _scale(b=0), False),
]

NO_ROW = {
    "GradientProcessor": "abstract; its subclasses have rows",
}
"""Public names of `tfutils.gradproc` without a row, and the reasons."""
