"""The check of an exported model: TensorFlow reads it, and it computes what the model computes."""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..utils import logger

__all__ = ["Expected", "check_outputs", "evaluate"]

# Folding batch normalization, and other algorithms for constant weights, change results by about 1e-4.
_TOLERANCE = 1e-2

Feeds = Dict[str, np.ndarray]


class Expected(NamedTuple):
    """
    The outputs of a model for one input.

    Attributes:
        feeds: the input, by the names of tensors.
        outputs: the outputs; None if the model does not run on this input, or if its outputs cannot be compared.
    """

    feeds: Feeds
    outputs: list[np.ndarray] | None


def evaluate(
    who: str, session: tf.Session, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]
) -> Expected:
    """
    Run a model on an input of its shape, in which unknown dimensions are 1. Log why if it does not run.

    Args:
        who: the function that exports, for messages.
        session: a session with the variables.
        inputs, outputs: its tensors.
    """
    feeds = {tensor.name: _make_input(tensor) for tensor in inputs}
    nearly = {name: value * 0.9999 if value.dtype.kind == "f" else value for name, value in feeds.items()}
    try:
        first, second = (session.run(list(outputs), one) for one in (feeds, nearly))
    except (tf.errors.OpError, ValueError) as error:
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in feeds.items())
        reason = str(error).strip().splitlines()[0]
        logger.warning(
            f"{who}: the exported model is not compared with the original on an input, because the model does not run on {shapes}: "
            f"{reason}"
        )
        return Expected(feeds, None)
    if _find_different(first, second) is not None:
        logger.warning(
            f"{who}: the exported model is not compared with the original on an input, because the outputs of the model are random, or "
            "depend on rounding."
        )
        return Expected(feeds, None)
    return Expected(feeds, first)


def check_outputs(
    who: str, session: tf.Session, fetches: Mapping[str, str], feeds: Feeds, expected: Expected, advice: str
) -> None:
    """
    Run an exported model.

    Args:
        who: the function that exports, for messages.
        session: a session with the exported model.
        fetches: the names of its outputs in `session`, by their names in the model.
        feeds: the input, by the names of tensors in `session`.
        expected: what `evaluate` returned.
        advice: a sentence for the error.

    Raises:
        RuntimeError: the exported model does not run, or its outputs differ.
    """
    if expected.outputs is None:
        return
    try:
        found = session.run(list(fetches.values()), feeds)
    except (tf.errors.OpError, ValueError) as error:
        raise RuntimeError(
            f"{who}: the exported model does not run on an input on which the model runs. {advice}"
        ) from error
    different = _find_different(expected.outputs, found)
    if different is not None:
        raise RuntimeError(
            f"{who}: the output '{list(fetches)[different]}' of the exported model differs from that of the model (expected "
            f"{_describe(expected.outputs[different])}, got {_describe(found[different])}). {advice}"
        )


def _make_input(tensor: tf.Tensor) -> np.ndarray:
    """Return random pixels for uint8, numbers from 0 to 1 for floats; otherwise zeros, False or empty strings."""
    shape = [size or 1 for size in tensor.shape.as_list()] if tensor.shape.ndims is not None else []
    dtype = np.dtype(tensor.dtype.base_dtype.as_numpy_dtype)
    if tensor.dtype.base_dtype == tf.string:
        return np.full(shape, b"", dtype)
    rng = np.random.RandomState(0)
    if tensor.dtype.base_dtype == tf.uint8:
        return rng.randint(256, size=shape).astype(dtype)
    if tensor.dtype.base_dtype.is_floating:
        return np.asarray(rng.uniform(size=shape)).astype(dtype)
    return np.zeros(shape, dtype)


def _find_different(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> int | None:
    """Return the index of the first array that differs by more than rounding."""
    pairs = [(np.asarray(one), np.asarray(other)) for one, other in zip(expected, found)]
    return next((index for index, (one, other) in enumerate(pairs) if not _are_close(one, other)), None)


def _are_close(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind == "V":  # bfloat16
        one, other = one.astype("float32"), other.astype("float32")
    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    finite = np.abs(one[np.isfinite(one)])
    scale = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE * min(scale, 1.0), equal_nan=True))


def _describe(value: np.ndarray) -> str:
    """Return dtype, shape and the first element."""
    value = np.asarray(value)
    first = f", beginning with {value.reshape(-1)[0]!r}" if value.size else ""
    return f"{value.dtype.name} {list(value.shape)}{first}"
