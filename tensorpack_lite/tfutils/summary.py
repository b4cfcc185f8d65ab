"""Summaries of tensors, and moving averages of scalars."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..compat.private import inside_xla
from ..utils import logger
from ..utils.errors import type_error
from ..utils.naming import MOVING_SUMMARY_OPS_KEY
from .png import encode_png
from .reads import read_before_update
from .scope_utils import cached_name_scope
from .symbolic_functions import rms
from .tower.context import get_current_tower_context

__all__ = [
    "add_activation_summary",
    "add_moving_summary",
    "add_param_summary",
    "add_tensor_summary",
    "create_image_summary",
    "create_scalar_summary",
]

_TOWER_PREFIX = re.compile(r"tower[0-9]+/")
_DEFAULT_ACTIVATION_TYPES = ("sparsity", "rms", "histogram")


def add_moving_summary(
    *scalars: Any,
    decay: float = 0.95,
    collection: str | None = MOVING_SUMMARY_OPS_KEY,
    summary_collections: Sequence[str] | None = None,
) -> list[Any]:
    """
    Summarise the moving average of scalars.

    For samples x_1 .. x_t: average_t = sum_i decay^(t-i) x_i / sum_i decay^(t-i). The first average is the first sample.
    The callback `MovingAverageSummary`, one of the defaults, updates the averages in each step.

    Args:
        *scalars: tensors or variables of rank 0; integers are averaged as float32.
        decay: weight of the past, 0 <= decay < 1; 0.95 looks back about 20 steps.
        collection: gets the updates; None means none.
        summary_collections: get the summaries; None means SUMMARIES.

    Returns:
        A list of the updated averages, one tensor a scalar; evaluating one updates it. Empty where nothing is made:
        in towers other than the first training one, where variables are reused, and inside XLA.

    Raises:
        TypeError: not a tensor.
        ValueError: not a scalar, a `decay` out of range, or a scalar that has a moving average already.

    Variables:
        With n the scalar's operation name without `tower<i>/`, all in LOCAL_VARIABLES only, so that they are in no
        checkpoint: `EMA/n` (the average), `EMA/n/biased` (the sum that starts at 0), `EMA/n/local_step` (t).

    Example:
        >>> add_moving_summary(cost, accuracy)                  # stats "cost" and "accuracy"

    Note: custom getters, e.g. of `freeze_variables`, do not see these variables.

    tensorpack: same; there XLA gives None, and the custom getter of the first call acts on all later ones.
    """
    if not 0 <= decay < 1:
        raise ValueError(f"add_moving_summary: decay is {decay}, wanted 0 <= decay < 1.")
    for scalar in scalars:
        _check_scalar(scalar)
    if _outside_main_tower() or inside_xla(tf.get_default_graph()):
        return []
    if tf.get_variable_scope().reuse is True:
        logger.warning("add_moving_summary() was called where variables are reused: nothing is summarised.")
        return []
    averages = []
    for scalar in scalars:
        name = _TOWER_PREFIX.sub("", scalar.op.name)
        average = _update_average(scalar, name, decay)
        with tf.name_scope(None):
            tf.summary.scalar(f"{name}-summary", average, collections=summary_collections)
        averages.append(average)
    if collection is not None:
        for average in averages:
            tf.add_to_collection(collection, average)
    return averages


def add_tensor_summary(
    x: Any,
    types: Sequence[str],
    name: str | None = None,
    collections: Sequence[str] | None = None,
    main_tower_only: bool = True,
) -> None:
    """
    Summarise a tensor.

    Args:
        x: a tensor or variable.
        types: any of "scalar", "histogram", "sparsity" (share of zeros), "mean", "rms"; each makes a summary `<name>-<type>`
            ("scalar": `<name>-summary`).
        name: None means the name of the tensor's operation.
        collections: get the summaries; None means SUMMARIES.
        main_tower_only: do nothing in towers other than the first training one.

    Raises:
        ValueError: an unknown type.

    tensorpack: same; there an unknown type is a bare KeyError.
    """
    unknown = [kind for kind in types if kind not in _SUMMARIES]
    if unknown:
        raise ValueError(f"add_tensor_summary: unknown types {unknown}, wanted some of {sorted(_SUMMARIES)}.")
    if main_tower_only and _outside_main_tower():
        return
    for kind in dict.fromkeys(types):
        _SUMMARIES[kind](x.op.name if name is None else name, x, collections)


def add_activation_summary(
    x: Any,
    types: Sequence[str] | None = None,
    name: str | None = None,
    collections: Sequence[str] | None = None,
) -> None:
    """
    Summarise a layer's output, under `activation-summary/`.

    Args:
        x: a tensor of rank 2 or more; others are left out, with a warning.
        types, name, collections: as in `add_tensor_summary`; None means sparsity, rms and histogram.

    tensorpack: same.
    """
    if x.shape.ndims is not None and x.shape.ndims < 2:
        logger.warning(f"add_activation_summary: {x.name} is a scalar or a vector, it is left out.")
        return
    with cached_name_scope("activation-summary"):
        add_tensor_summary(x, _DEFAULT_ACTIVATION_TYPES if types is None else types, name, collections)


def add_param_summary(*summary_lists: Any, collections: Sequence[str] | None = None) -> None:
    """
    Summarise trainable variables, under `param-summary/`.

    Args:
        *summary_lists: pairs `(regex, types)`: types as in `add_tensor_summary`, of the trainable variables that exist so far
            and whose whole name (without `:0`) matches the regex.
        collections: get the summaries; None means SUMMARIES.

    Raises:
        TypeError: not such pairs.

    Example:
        >>> add_param_summary((".*/W", ["histogram", "rms"]))   # e.g. param-summary/conv0/W-rms

    Note: does nothing in towers other than the first training one. A step that updates a parameter summarises the value from
    before that; not if the update stands inside a condition, as AccumGradOptimizer's does.

    tensorpack: same; there before or after, by chance.
    """
    for pair in summary_lists:
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise type_error("add_param_summary", "pairs (regex, [types])", pair, "E.g. ('.*/W', ['rms']).")
    if _outside_main_tower():
        return
    with cached_name_scope("param-summary"):
        for var in tf.trainable_variables():
            kinds = [
                kind for regex, types in summary_lists if re.fullmatch(regex, var.op.name) for kind in types
            ]
            if kinds:
                add_tensor_summary(read_before_update(var), kinds, name=var.op.name, collections=collections)


def create_scalar_summary(name: str, v: float) -> Any:
    """
    Put a number into a `tf.Summary`, without a graph.

    Args:
        name: its tag.
        v: the number.

    Returns:
        A `tf.Summary` protobuf.

    tensorpack: same.
    """
    summary = tf.Summary()
    summary.value.add(tag=name, simple_value=float(v))
    return summary


def create_image_summary(name: str, val: np.ndarray) -> Any:
    """
    Put images into a `tf.Summary`, without a graph.

    Args:
        name: the tag; of several images `name/0`, `name/1` ...
        val: `[N, H, W, C]` with 1 to 4 channels (grey; grey, alpha; RGB; RGBA) of any dtype, in [0, 255]; what lies outside is
            clipped.

    Returns:
        A `tf.Summary` protobuf with PNG images.

    Raises:
        ValueError: another shape.

    tensorpack: same; there OpenCV is needed and values outside of [0, 255] wrap around.
    """
    val = np.asarray(val)
    if val.ndim != 4:
        raise ValueError(f"create_image_summary '{name}': takes images [N, H, W, C], got shape {val.shape}.")
    images = val if val.dtype == np.uint8 else np.clip(val, 0, 255).astype(np.uint8)
    summary = tf.Summary()
    for index, image in enumerate(images):
        value = summary.value.add(tag=name if len(images) == 1 else f"{name}/{index}")
        value.image.height, value.image.width, value.image.colorspace = image.shape
        value.image.encoded_image_string = encode_png(image)
    return summary


def _outside_main_tower() -> bool:
    context = get_current_tower_context()
    return context is not None and not context.is_main_training_tower


def _check_scalar(x: Any) -> None:
    if not isinstance(x, (tf.Tensor, tensorflow.Variable)):
        raise type_error("add_moving_summary", "tensors", x)
    if x.shape.ndims != 0:
        raise ValueError(
            f"add_moving_summary: takes scalars, but {x.name} has shape {x.shape}. Use tf.reduce_mean."
        )


def _update_average(scalar: Any, name: str, decay: float) -> Any:
    """Make the variables and the update of one average; returns the updated average, named `EMA/<name>_EMA_apply`."""
    if any(var.op.name == f"EMA/{name}" for var in tf.local_variables()):
        raise ValueError(
            f"add_moving_summary: '{name}' has a moving average in this graph already. Add it once."
        )
    dtype = scalar.dtype.base_dtype if scalar.dtype.base_dtype == tf.float64 else tf.float32
    with _plain_local_variables():
        average = _local_scalar(f"EMA/{name}", dtype)
        # so that rounding does not show in the average
        biased = _local_scalar(f"EMA/{name}/biased", tf.float64)
        local_step = _local_scalar(f"EMA/{name}/local_step", tf.float64)
    with cached_name_scope("EMA"):
        with tf.name_scope(f"{name}_EMA_update"):
            step = local_step.assign_add(1.0, read_value=True)
            news = tf.cast(scalar, tf.float64) - biased.read_value()
            total = biased.assign_add(news * (1.0 - decay), read_value=True)
            debiased = tf.cast(total / (1.0 - tf.pow(tf.constant(decay, tf.float64), step)), dtype)
            assign = average.assign(debiased, read_value=False)
        with tf.control_dependencies([assign]):
            return tf.identity(debiased, name=f"{name}_EMA_apply")


@contextmanager
def _plain_local_variables() -> Iterator[None]:
    """Make variables at the root, whatever scopes, getters and reuse the caller is under."""
    root = tf.VariableScope(reuse=False, name="", use_resource=True)
    with tf.variable_scope(root, auxiliary_name_scope=False):
        yield


def _local_scalar(name: str, dtype: Any) -> Any:
    return tf.get_variable(
        name,
        shape=[],
        dtype=dtype,
        initializer=tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
    )


def _scalar(name: str, x: Any, collections: Sequence[str] | None) -> None:
    tf.summary.scalar(f"{name}-summary", x, collections=collections)


def _histogram(name: str, x: Any, collections: Sequence[str] | None) -> None:
    tf.summary.histogram(f"{name}-histogram", x, collections=collections)


def _sparsity(name: str, x: Any, collections: Sequence[str] | None) -> None:
    tf.summary.scalar(f"{name}-sparsity", tf.nn.zero_fraction(x), collections=collections)


def _mean(name: str, x: Any, collections: Sequence[str] | None) -> None:
    tf.summary.scalar(f"{name}-mean", tf.reduce_mean(x), collections=collections)


def _rms(name: str, x: Any, collections: Sequence[str] | None) -> None:
    tf.summary.scalar(f"{name}-rms", rms(x, name=f"{name}-rms-value"), collections=collections)


_SUMMARIES: dict[str, Callable[[str, Any, Sequence[str] | None], None]] = {
    "scalar": _scalar,
    "histogram": _histogram,
    "sparsity": _sparsity,
    "mean": _mean,
    "rms": _rms,
}
