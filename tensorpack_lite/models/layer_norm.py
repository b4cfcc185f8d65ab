"""Normalization of each datapoint by its own moments."""

from __future__ import annotations

from typing import Callable

from ..compat import tfv1 as tf
from ..tfutils.early_read import shared_read
from .arguments import convert_to_tflayer_args
from .checks import require_known_channels, require_rank
from .normalization import affine_parameters, along, compute_moments, normalize, statistics_dtype
from .outputs import name_output
from .registry import layer_register


@layer_register()
@convert_to_tflayer_args(
    args_names=[],
    name_mapping={"use_bias": "center", "use_scale": "scale", "gamma_init": "gamma_initializer"},
)
def LayerNorm(
    inputs: tf.Tensor,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Callable[..., tf.Tensor] | None = None,
    data_format: str = "channels_last",
) -> tf.Tensor:
    """
    Normalize each datapoint by the mean and variance of all its values, called `LayerNorm(name, inputs)`.

    y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with one gamma and beta per channel.

    Shapes: [N, C] -> [N, C]; [N, H, W, C] -> [N, H, W, C].

    Args:
        inputs: [N, C], [N, H, W, C] or [N, C, H, W] of any floating dtype; C must be known. 16-bit inputs are
            normalized in float32.
        epsilon: added to the variance.
        center, scale: whether to add beta, and to multiply by gamma.
        gamma_initializer: None means ones.
        data_format: as in Conv2D.

    Returns:
        A tensor named `<name>/output`, with `.variables.gamma` and `.variables.beta`.

    Raises:
        ValueError: the rank is wrong, or C is unknown.

    Variables: `beta` and `gamma` [C], trained, float32 for 16-bit inputs.

    Source: Ba, Kiros, Hinton 2016, "Layer normalization".
    """
    inputs = require_rank("LayerNorm", inputs, (2, 4), data_format)
    axes = list(range(1, inputs.shape.ndims))
    return _normalize_datapoints("LayerNorm", inputs, axes, epsilon, data_format, center, scale, gamma_initializer)


@layer_register()
@convert_to_tflayer_args(args_names=[], name_mapping={"gamma_init": "gamma_initializer"})
def InstanceNorm(
    inputs: tf.Tensor,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Callable[..., tf.Tensor] | None = None,
    data_format: str = "channels_last",
) -> tf.Tensor:
    """
    Normalize each channel of each image by its own mean and variance, called `InstanceNorm(name, inputs)`.

    y = (x - mean) / sqrt(variance + epsilon) * gamma + beta.

    Shapes: [N, H, W, C] -> [N, H, W, C].

    Args:
        inputs: [N, H, W, C] or [N, C, H, W] of any floating dtype; C must be known. 16-bit inputs are
            normalized in float32.
        epsilon, center, scale, gamma_initializer, data_format: as in LayerNorm.

    Returns:
        A tensor named `<name>/output`, with `.variables.gamma` and `.variables.beta`.

    Raises:
        ValueError: the rank is wrong, or C is unknown.

    Variables: `beta` and `gamma` [C], trained, float32 for 16-bit inputs.

    Source: Ulyanov, Vedaldi, Lempitsky 2016, "Instance normalization".
    """
    inputs = require_rank("InstanceNorm", inputs, (4,), data_format)
    axes = [1, 2] if data_format == "channels_last" else [2, 3]
    return _normalize_datapoints("InstanceNorm", inputs, axes, epsilon, data_format, center, scale, gamma_initializer)


def _normalize_datapoints(
    layer: str,
    inputs: tf.Tensor,
    axes: list[int],
    epsilon: float,
    data_format: str,
    center: bool,
    scale: bool,
    gamma_initializer: Callable[..., tf.Tensor] | None,
) -> tf.Tensor:
    rank = inputs.shape.ndims
    channel_axis = rank - 1 if data_format == "channels_last" else 1
    channels = require_known_channels(layer, inputs, channel_axis)
    gamma, beta = affine_parameters(channels, statistics_dtype(inputs), center, scale, None, gamma_initializer)
    scale_by, shift_by = (along(shared_read(var), channel_axis, rank) for var in (gamma, beta))
    mean, variance = compute_moments(inputs, axes)
    outputs = normalize(inputs, mean, variance, shift_by, scale_by, epsilon)
    return name_output(outputs, gamma=gamma, beta=beta)
