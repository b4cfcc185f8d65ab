"""Summaries of tensors, and moving averages of scalars."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..compat.private import inside_xla
from ..utils import logger
from ..utils.checks import check_choice, check_fraction
from ..utils.errors import type_error
from ..utils.missing_names import explain_missing_names
from ..utils.naming import MOVING_AVERAGES_KEY, MOVING_SUMMARY_OPS_KEY, TOWER_PREFIX
from ..utils.png import encode_png
from .collection import inside_branch, leave_branch_advice
from .common import root_variable_scope
from .early_read import read_before_update
from .scope_utils import cached_name_scope
from .symbolic_functions import rms, widen
from .tower.context import get_current_tower_context

__all__ = [
    "add_activation_summary", "add_moving_summary", "add_param_summary", "add_tensor_summary",
    "create_image_summary", "create_scalar_summary", "has_scalar_summary",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)

_TYPES = ("scalar", "histogram", "sparsity", "mean", "rms")
_UPDATE, _ADD, _APPLY = "_EMA_update", "add_sample", "_EMA_apply"  # parts of names
_DEFAULT_ACTIVATION_TYPES = ("sparsity", "rms", "histogram")


def add_moving_summary(
    *scalars: Any,
    decay: float = 0.95,
    collection: str | None = MOVING_SUMMARY_OPS_KEY,
    summary_collections: Sequence[str] | None = None,
) -> list[tf.Tensor]:
    """
    Summarize the moving averages of scalars.

    For samples x_1 .. x_t: average_t = sum_i decay^(t-i) x_i / sum_i decay^(t-i). The first average is the
    first sample. `MovingAverageSummary`, one of the default callbacks, updates the averages in each step.

    Args:
        *scalars: tensors or variables of rank 0. Integers are averaged as float32.
        decay: weight of the past, 0 <= decay < 1. 0.95 averages over about 20 steps.
        collection: the collection of the updates, or None.
        summary_collections: the collections of the summaries. None means SUMMARIES.

    Returns:
        A list with one tensor per scalar, the updated average. Evaluating it updates the average. The list is empty in
        towers other than the first training tower, where variables are reused, and inside XLA.

    Raises:
        TypeError: an argument is not a tensor.
        ValueError: a tensor is not a scalar or already has a moving average, or `decay` is out of range.

    Variables:
        `EMA/n` (the average), `EMA/n/biased` (the sum that starts at 0) and `EMA/n/local_step` (t), where n
        is the scalar's operation name without `tower<i>/`. They are only in LOCAL_VARIABLES, so checkpoints
        do not contain them.

    Example:
        >>> add_moving_summary(cost, accuracy)                  # stats "cost" and "accuracy"

    Note: custom getters, e.g. of `freeze_variables`, do not apply to these variables.
    """
    check_fraction("add_moving_summary: decay", decay)
    for scalar in scalars:
        _check_scalar(scalar)
    if _outside_main_tower() or inside_xla(tf.get_default_graph()):
        return []
    if tf.get_variable_scope().reuse is True:
        logger.warning("add_moving_summary: skipped, because variables are reused here.")
        return []
    _refuse_branch("add_moving_summary", scalars)
    averages = []
    for scalar in scalars:
        name = TOWER_PREFIX.sub("", scalar.op.name)
        average = _update_average(scalar, name, decay)
        with tf.name_scope(None):
            tf.summary.scalar(f"{name}-summary", average, collections=summary_collections)
        averages.append(average)
        if collection is not None:
            tf.add_to_collection(collection, average)
    return averages


def accumulate_op(average: tf.Tensor) -> tf.Operation:
    """
    Return the operation that adds the next sample to a moving average.

    It costs less than evaluating the average, which also runs it. It does not update the variable `EMA/n`.

    Args:
        average: a tensor that `add_moving_summary` returned.

    Raises:
        KeyError: it did not return this tensor.
    """
    prefix = average.op.name[: -len(_APPLY)]
    return average.graph.get_operation_by_name(f"{prefix}{_UPDATE}/{_ADD}")


def add_tensor_summary(
    x: tf.Tensor,
    types: Sequence[str],
    name: str | None = None,
    collections: Sequence[str] | None = None,
    main_tower_only: bool = True,
) -> None:
    """
    Summarize a tensor.

    Args:
        x: a tensor or variable.
        types: any of "scalar", "histogram", "sparsity" (fraction of zeros), "mean" and "rms". Each creates a summary
            `<name>-<type>` ("scalar": `<name>-summary`).
        name: name of the summaries. None means the name of the tensor's operation.
        collections: the collections of the summaries. None means SUMMARIES.
        main_tower_only: do nothing in towers other than the first training tower.

    Raises:
        ValueError: a type is unknown.
    """
    for kind in types:
        check_choice("add_tensor_summary: a type", kind, _TYPES)
    if main_tower_only and _outside_main_tower():
        return
    _refuse_branch("add_tensor_summary", [x])
    name = x.op.name if name is None else name
    for kind in dict.fromkeys(types):
        if kind == "histogram":
            tf.summary.histogram(f"{name}-histogram", x, collections=collections)
        elif kind == "scalar":
            tf.summary.scalar(f"{name}-summary", x, collections=collections)
        elif kind == "sparsity":
            tf.summary.scalar(f"{name}-sparsity", tf.nn.zero_fraction(x), collections=collections)
        elif kind == "mean":
            tf.summary.scalar(f"{name}-mean", tf.reduce_mean(widen(x)), collections=collections)
        else:
            tf.summary.scalar(f"{name}-rms", rms(x, name=f"{name}-rms-value"), collections=collections)


def add_activation_summary(
    x: tf.Tensor,
    types: Sequence[str] | None = None,
    name: str | None = None,
    collections: Sequence[str] | None = None,
) -> None:
    """
    Summarize a layer's output, under `activation-summary/`.

    Args:
        x: a tensor of rank 2 or more. Others are skipped with a warning.
        types: as in `add_tensor_summary`. None means sparsity, rms and histogram.
        name, collections: as in `add_tensor_summary`.
    """
    if x.shape.ndims is not None and x.shape.ndims < 2:
        logger.warning(f"add_activation_summary: skipped {x.name}, because it is a scalar or a vector.")
        return
    with cached_name_scope("activation-summary"):
        add_tensor_summary(x, _DEFAULT_ACTIVATION_TYPES if types is None else types, name, collections)


def add_param_summary(*summary_lists: tuple[str, Sequence[str]], collections: Sequence[str] | None = None) -> None:
    """
    Summarize trainable variables, under `param-summary/`.

    It does nothing in towers other than the first training tower.

    Args:
        *summary_lists: pairs `(regex, types)`. The regex selects the existing trainable variables whose whole
            name (without `:0`) matches. The types are those of `add_tensor_summary`.
        collections: the collections of the summaries. None means SUMMARIES.

    Raises:
        TypeError: an argument is not such a pair.

    Example:
        >>> add_param_summary((".*/W", ["histogram", "rms"]))   # e.g. param-summary/conv0/W-rms

    Note: a step that updates a parameter summarizes the value from before the update, unless the update is inside a
    condition, as with AccumGradOptimizer.
    """
    for pair in summary_lists:
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise type_error("add_param_summary", "pairs (regex, [types])", pair, "For example: ('.*/W', ['rms']).")
    if _outside_main_tower():
        return
    with cached_name_scope("param-summary"):
        for var in tf.trainable_variables():
            kinds = [kind for regex, types in summary_lists if re.fullmatch(regex, var.op.name) for kind in types]
            if kinds:
                add_tensor_summary(read_before_update(var), kinds, name=var.op.name, collections=collections)


def create_scalar_summary(name: str, v: float) -> tf.Summary:
    """
    Return a `tf.Summary` protobuf of a number, without using a graph.

    Args:
        name: the tag.
        v: the number.
    """
    summary = tf.Summary()
    summary.value.add(tag=name, simple_value=float(v))
    return summary


def create_image_summary(name: str, val: np.ndarray) -> tf.Summary:
    """
    Return a `tf.Summary` protobuf of PNG images, without using a graph.

    Args:
        name: the tag. Several images have the tags `name/0`, `name/1` ...
        val: `[N, H, W, C]` with 1 to 4 channels (gray; gray and alpha; RGB; RGBA), any dtype. Values are clipped to
            [0, 255].

    Raises:
        ValueError: `val` has another shape.
    """
    val = np.asarray(val)
    if val.ndim != 4:
        raise ValueError(
            f"create_image_summary: '{name}' has the wrong shape (expected [N, H, W, C], got {val.shape})."
        )
    images = val if val.dtype == np.uint8 else np.clip(val, 0, 255).astype(np.uint8)
    summary = tf.Summary()
    for index, image in enumerate(images):
        value = summary.value.add(tag=name if len(images) == 1 else f"{name}/{index}")
        value.image.height, value.image.width, value.image.colorspace = image.shape
        value.image.encoded_image_string = encode_png(image)
    return summary


def create_text_summary(name: str, val: Sequence[str]) -> tf.Summary:
    """
    Return a `tf.Summary` protobuf of texts, without using a graph.

    Args:
        name: the tag.
        val: the texts; TensorBoard shows several as rows of a table.
    """
    summary = tf.Summary()
    value = summary.value.add(tag=name, tensor=tf.make_tensor_proto(list(val), tf.string, [len(val)]))
    value.metadata.plugin_data.plugin_name = "text"
    return summary


def has_scalar_summary(x: tf.Tensor) -> bool:
    """Return whether `add_moving_summary` or `tf.summary.scalar` was called on a scalar tensor."""
    average = f"EMA/{TOWER_PREFIX.sub('', x.op.name)}"
    has_average = any(var.op.name == average for var in tf.local_variables())
    return has_average or any(op.type == "ScalarSummary" for op in x.consumers())


def _outside_main_tower() -> bool:
    context = get_current_tower_context()
    return context is not None and not context.is_main_training_tower


def _refuse_branch(who: str, tensors: Sequence[tf.Tensor]) -> None:
    if tensors and inside_branch():
        raise RuntimeError(
            f"{who}: '{tensors[0].op.name}' is summarized inside a condition or a loop, where no callback can run the summary. "
            f"{leave_branch_advice()}"
        )


def _check_scalar(x: tf.Tensor) -> None:
    if not isinstance(x, (tf.Tensor, tensorflow.Variable)):
        raise type_error("add_moving_summary", "a tensor", x)
    if x.shape.ndims != 0:
        raise ValueError(
            f"add_moving_summary: {x.name} is not a scalar (expected shape (), got {x.shape}). Use tf.reduce_mean."
        )


def _update_average(scalar: tf.Tensor, name: str, decay: float) -> tf.Tensor:
    """Create the variables and the update of one average. Returns the updated average, named `EMA/<name>_EMA_apply`."""
    if any(var.op.name == f"EMA/{name}" for var in tf.local_variables()):
        raise ValueError(
            f"add_moving_summary: '{name}' already has a moving average in this graph. Call it once per scalar."
        )
    dtype = scalar.dtype.base_dtype if scalar.dtype.base_dtype == tf.float64 else tf.float32
    with root_variable_scope():
        average = _local_scalar(f"EMA/{name}", dtype)
        # float64, so that rounding errors are not visible in the average
        biased = _local_scalar(f"EMA/{name}/biased", tf.float64)
        local_step = _local_scalar(f"EMA/{name}/local_step", tf.float64)
    with cached_name_scope("EMA"):
        with tf.name_scope(f"{name}{_UPDATE}"):
            difference = tf.cast(scalar, tf.float64) - biased.read_value()
            weighted = biased.assign_add(difference * (1.0 - decay), read_value=False)
            with tf.control_dependencies([weighted]):
                added = local_step.assign_add(1.0, name=_ADD, read_value=False)
            with tf.control_dependencies([added]):
                weight = 1.0 - tf.pow(tf.constant(decay, tf.float64), local_step.read_value())
                debiased = tf.cast(biased.read_value() / weight, dtype)
            assign = average.assign(debiased, read_value=False)
        with tf.control_dependencies([assign]):
            return tf.identity(debiased, name=f"{name}{_APPLY}")


def _local_scalar(name: str, dtype: tf.DType) -> tf.Variable:
    return tf.get_variable(
        name,
        shape=[],
        dtype=dtype,
        initializer=tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, MOVING_AVERAGES_KEY],
    )
