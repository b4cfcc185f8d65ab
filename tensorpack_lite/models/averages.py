"""The moving averages of BatchNorm and BatchRenorm: who updates them, how, and where they are collected."""

from __future__ import annotations

from typing import Any

from ..compat import tfv1 as tf
from ..tfutils.reads import shared_read
from ..tfutils.tower.context import get_current_tower_context
from .checks import layer_title
from .variables import is_variable, shared_constant

__all__ = [
    "add_to_update_ops",
    "collect_model_variables",
    "create_average",
    "update_average",
    "updates_averages",
]


def create_average(name: str, channels: int, dtype: Any, initializer: Any) -> Any:
    """Get the variable of an average, [channels], which is not trained."""
    return tf.get_variable(name, [channels], dtype, initializer, trainable=False)


def updates_averages(ema_update: str) -> bool:
    """Tell whether this tower moves the averages: the first of the trained ones, or one where nothing is trained."""
    context = get_current_tower_context()
    mine = context is None or context.is_main_training_tower or not context.is_training
    return mine and ema_update != "skip"


def update_average(average: Any, value: Any, momentum: float) -> Any:
    """
    Move an average towards a value: average = average * momentum + value * (1 - momentum), without correction at the start.

    Args:
        average: a variable.
        value: a tensor of its shape.
        momentum: the weight of the past, from 0 to 1.

    Returns:
        The operation that does it.

    Raises:
        TypeError: `average` is no variable.
    """
    if not is_variable(average):
        raise TypeError(
            f"{layer_title('BatchNorm')}: a custom getter gave {average} in the place of a moving average, which cannot be "
            "updated. Let it return variables with trainable=False as they are, or pass ema_update='skip'."
        )
    with tf.name_scope("AssignMovingAvg"):
        difference, share = shared_read(average) - value, _share_of_new(momentum, value.dtype)
        handle = getattr(average, "handle", None)
        if handle is None:
            return average.assign_sub(difference * share, read_value=False)
        # the same in one operation: average -= share * difference
        return tf.raw_ops.ResourceApplyGradientDescent(
            var=handle, alpha=share, delta=difference, name="update"
        )


def add_to_update_ops(updates: list[Any]) -> None:
    """Let the updates run with each training step (RunUpdateOps does it)."""
    for update in updates:
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)


def collect_model_variables(averages: list[Any]) -> None:
    """Put the averages of the first tower into MODEL_VARIABLES, each once."""
    context = get_current_tower_context()
    if context is None or not context.is_main_training_tower:
        return
    collected = tf.get_collection_ref(tf.GraphKeys.MODEL_VARIABLES)
    for average in averages:
        if is_variable(average) and not any(average is other for other in collected):
            collected.append(average)


def _share_of_new(momentum: Any, dtype: Any) -> Any:
    share = 1 - momentum
    return share if isinstance(share, tf.Tensor) else shared_constant(share, dtype)
