"""Checks of the inputs and arguments of layers."""

from __future__ import annotations

from numbers import Real
from typing import Any, Sequence

from ..compat import TF_VERSION
from ..compat import tfv1 as tf
from ..compat.tapes import tape_is_recording
from ..tfutils.tower.context import BaseTowerContext, get_current_tower_context
from ..utils.argtools import log_once
from ..utils.checks import check_type

_LAYOUTS = {("channels_last", 2): "[N, C]", ("channels_first", 2): "[N, C]",
            ("channels_last", 4): "[N, H, W, C]", ("channels_first", 4): "[N, C, H, W]"}  # fmt: skip


def layer_title(layer: str) -> str:
    """
    Return the name of the layer that is being built, for error messages.

    Example:
        >>> with tf.variable_scope("conv0"):
        ...     layer_title("Conv2D")
        "Conv2D 'conv0'"
    """
    scope = tf.get_variable_scope().name
    return f"{layer} '{scope}'" if scope else layer


def require_rank(
    layer: str, inputs: tf.Tensor, ranks: tuple[int, ...], data_format: str = "channels_last"
) -> tf.Tensor:
    """
    Return the inputs as a tensor of one of the given ranks.

    Raises:
        ValueError: the rank is unknown, or not in `ranks`.
    """
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    expected = " or ".join(f"{r}: {_LAYOUTS[data_format, r]}" for r in ranks)
    if rank is None:
        raise ValueError(
            f"{layer_title(layer)}: the input has an unknown rank (expected {expected}). Use x.set_shape(...)."
        )
    if rank in ranks:
        return inputs
    advice = ""
    if rank == 3 and 4 in ranks:
        axis = 3 if data_format == "channels_last" else 1
        advice = f" Use tf.expand_dims(x, {axis}) for images with one channel."
    shape = inputs.shape.as_list()
    raise ValueError(
        f"{layer_title(layer)}: the input has the wrong rank (expected {expected}, got {rank}: {shape}).{advice}"
    )


def require_sequences(layer: str, inputs: tf.Tensor, what: str = "the input") -> tf.Tensor:
    """
    Return the inputs, which must be floating-point sequences [N, T, D] or [T, N, D] with known D.

    Args:
        layer: the kind of layer, for messages.
        inputs: the tensor.
        what: its role, for messages.

    Raises:
        ValueError: another rank or dtype, or D is not known.
    """
    title = f"{layer_title(layer)}: {what}"
    if inputs.shape.ndims != 3 or inputs.shape.as_list()[2] is None:
        raise ValueError(
            f"{title} has the wrong shape (expected 3 axes: datapoints, steps, and features of known size, got {inputs.shape}). If "
            "TensorFlow does not know the size, use x.set_shape(...)."
        )
    if not inputs.dtype.is_floating:
        raise ValueError(
            f"{title} has the wrong dtype (expected a floating dtype, got {inputs.dtype.name}). Turn integers into embeddings with "
            "tf.nn.embedding_lookup, or use tf.cast."
        )
    return inputs


def require_known_channels(layer: str, inputs: tf.Tensor, axis: int) -> int:
    """
    Return the number of channels, which determines the shapes of variables.

    Raises:
        ValueError: the number is not known statically.
    """
    channels = inputs.shape.as_list()[axis]
    if channels is None:
        raise ValueError(
            f"{layer_title(layer)}: the number of channels is unknown (axis {axis} of {inputs.shape.as_list()}), but the "
            "shapes of variables depend on it. Use x.set_shape(...)."
        )
    return channels


def require_shape(layer: str, what: str, tensor: tf.Tensor, shape: tf.TensorShape) -> None:
    """Raise ValueError if a tensor cannot have a shape."""
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(f"{layer_title(layer)}: {what} has the wrong shape (expected {shape}, got {tensor.shape}).")


def require_integer(layer: str, name: str, value: Any) -> int:
    """
    Return a positive integer for any integral number: a size, a stride, a number of filters.

    Args:
        layer, name: the layer and its argument, for the error.
        value: an integer of Python or NumPy, a float such as 8.0, or a `tf.Dimension`, which `x.shape[3]` is on
            TensorFlow 1.15.

    Raises:
        TypeError: `value` is not a number.
        ValueError: `value` is not integral or not positive, or it is an unknown dimension (None on TensorFlow 2).
    """
    number = value.value if isinstance(value, tf.Dimension) else value
    if number is None:
        raise ValueError(
            f"{layer_title(layer)}: {name} is unknown (expected a positive integer, got {value!r}). Use x.set_shape(...)."
        )
    check_type(f"{layer_title(layer)}: {name}", number, Real, "a positive integer")
    if number != number // 1 or number < 1:
        raise ValueError(f"{layer_title(layer)}: {name} is invalid (expected a positive integer, got {number}).")
    return int(number)


def require_pair(layer: str, name: str, value: int | Sequence[int]) -> list[int]:
    """
    Return `[height, width]` for one integral number or a list or tuple of two.

    Raises:
        TypeError, ValueError: as `require_integer`; ValueError also for another number of values.
    """
    pair = value if isinstance(value, (list, tuple)) else [value, value]
    if len(pair) != 2:
        raise ValueError(
            f"{layer_title(layer)}: {name} has the wrong length (expected an integer or (height, width), got {value!r})."
        )
    return [require_integer(layer, name, number) for number in pair]


def require_padding(layer: str, padding: str) -> str:
    """
    Return "SAME" or "VALID", TensorFlow's spelling of a padding.

    Raises:
        ValueError: the padding is neither.
    """
    if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"{layer_title(layer)}: padding is unknown (expected 'same' or 'valid', got {padding!r}).")
    return padding.upper()


def require_tower_context(who: str, advice: str = "") -> BaseTowerContext:
    """
    Return the current tower context.

    Args:
        who: the caller, for the error.
        advice: a sentence with an alternative to entering a tower.

    Raises:
        RuntimeError: the call is outside of a tower.
    """
    context = get_current_tower_context()
    if context is None:
        raise RuntimeError(
            f"{who}: called outside of a tower, so it is unknown whether this is training. Build the graph inside "
            f"`with TowerContext('', is_training=...):`. {advice}".rstrip()
        )
    return context


def warn_if_called_twice(layer: str, effect: str) -> None:
    """Log once, under a gradient tape, what happens to a layer whose function `tf.recompute_grad` calls a second time."""
    if tape_is_recording():
        log_once(
            f"{layer}: a gradient tape is recording. If it belongs to tf.recompute_grad, which calls the layer twice, "
            f"{effect}. Use tensorpack_lite.recompute_grad.",
            func="warning",
        )


def refuse_tape_around_loop(layer: str) -> None:
    """
    Raise an error on TensorFlow 2 if a gradient tape records a loop of TensorFlow 1's control flow.

    The gradients that such a tape computes are 0, or None. On TensorFlow 1.15 they are always None, which training warns about, and
    `tf.custom_gradient` has a tape that may compute none.

    Raises:
        RuntimeError: the advice.
    """
    if TF_VERSION >= (2, 0) and tape_is_recording() and not tf.control_flow_v2_enabled():
        raise RuntimeError(
            f"{layer_title(layer)}: a gradient tape is recording, and tapes do not see inside loops of TensorFlow 1, so the layer "
            "would not train. If the number of steps is known, use unroll=True. If the tape belongs to tf.recompute_grad, use "
            "tensorpack_lite.recompute_grad. Otherwise use tf.gradients, or call tf.enable_control_flow_v2() before the graph is built."
        )


def find_training(layer: str, training: bool | None) -> bool:
    """
    Return whether a layer is built for training: its argument `training`, or what the tower context says if
    that is None.

    Raises:
        TypeError: `training` is a tensor.
        RuntimeError: `training` is None, and the call is outside of a tower.
    """
    if training is None:
        return require_tower_context(layer_title(layer), "Or pass training=True or False.").is_training
    if isinstance(training, tf.Tensor):
        raise TypeError(
            f"{layer_title(layer)}: training has the wrong type (expected True or False, got a tensor). Build one tower for "
            "each value."
        )
    return bool(training)
