"""The questions that layers ask about their inputs, and the sentences when the answer is no."""

from __future__ import annotations

from typing import Any

from ..compat import tfv1 as tf
from ..tfutils.tower.context import BaseTowerContext, get_current_tower_context

__all__ = [
    "layer_title",
    "require_known_channels",
    "require_padding",
    "require_rank",
    "require_tower_context",
]

_LAYOUTS = {("channels_last", 2): "[N, C]", ("channels_first", 2): "[N, C]",
            ("channels_last", 4): "[N, H, W, C]", ("channels_first", 4): "[N, C, H, W]"}  # fmt: skip


def layer_title(layer: str) -> str:
    """
    Name the layer being built in an error.

    Example:
        >>> layer_title("Conv2D")                       # inside tf.variable_scope("conv0")
        "Conv2D 'conv0'"
    """
    scope = tf.get_variable_scope().name
    return f"{layer} '{scope}'" if scope else layer


def require_rank(layer: str, inputs: Any, ranks: tuple[int, ...], data_format: str = "channels_last") -> Any:
    """
    Refuse inputs of another rank.

    Returns:
        The inputs as a tensor, should they be a variable.

    Raises:
        ValueError: their rank is unknown, or not among `ranks`.
    """
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    wanted = " or ".join(f"{r} ({_LAYOUTS[data_format, r]})" for r in ranks)
    if rank is None:
        raise ValueError(
            f"{layer_title(layer)}: input has unknown rank, wanted {wanted}. Use x.set_shape(...)."
        )
    if rank in ranks:
        return inputs
    advice = ""
    if rank == 3 and 4 in ranks:
        axis = 3 if data_format == "channels_last" else 1
        advice = f" Use tf.expand_dims(x, {axis}) for one channel."
    elif rank > 2 and ranks == (2,):
        advice = " Use tensorpack_lite.models.fc.batch_flatten(x)."
    shape = inputs.shape.as_list()
    raise ValueError(f"{layer_title(layer)}: input {shape} has rank {rank}, wanted {wanted}.{advice}")


def require_known_channels(layer: str, inputs: Any, axis: int) -> int:
    """
    Get the number of channels, which decides the shapes of variables.

    Raises:
        ValueError: it is not known statically.
    """
    channels = inputs.shape.as_list()[axis]
    if channels is None:
        raise ValueError(
            f"{layer_title(layer)}: input {inputs.shape.as_list()} has an unknown number of channels (axis {axis}), so "
            "the shapes of its variables are not known. Use x.set_shape(...)."
        )
    return channels


def require_padding(layer: str, padding: str) -> str:
    """
    Get the padding in TensorFlow's spelling.

    Returns:
        "SAME" or "VALID".

    Raises:
        ValueError: something else.
    """
    if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"{layer_title(layer)}: padding is {padding!r}, wanted 'same' or 'valid'.")
    return padding.upper()


def require_tower_context(who: str, advice: str = "") -> BaseTowerContext:
    """
    Get the current tower context.

    Args:
        who: the beginning of the error.
        advice: what else can be done than entering a tower.

    Raises:
        RuntimeError: there is none.
    """
    context = get_current_tower_context()
    if context is None:
        raise RuntimeError(
            f"{who}: called outside of a tower, so it cannot know whether this is training. Build the graph inside "
            f"`with TowerContext('', is_training=...):`. {advice}".rstrip()
        )
    return context
