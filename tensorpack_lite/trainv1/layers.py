"""Layers that tensorpack has removed."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..compat.variables import get_variable
from ..models.arguments import convert_to_tflayer_args, get_activation
from ..models.registry import layer_register
from ..models.variables import VariableHolder

_NAME_MAPPING = {"out_channel": "filters", "kernel_shape": "kernel_size", "stride": "strides"}


@layer_register(use_scope=None)
def LeakyReLU(x: tf.Tensor, alpha: float = 0.01, name: str | None = None) -> tf.Tensor:  # noqa: N802
    """Return x where it is positive, otherwise alpha x."""
    return tf.maximum(x, alpha * x, name=name or "output")


@layer_register(use_scope=None)
def SoftMax(x: tf.Tensor, use_temperature: bool = False, temperature_init: float = 1.0) -> tf.Tensor:  # noqa: N802
    """
    Return the softmax of [N, C] logits.

    Args:
        x: [N, C].
        use_temperature: divide the logits by a trained scalar.
        temperature_init: its initial value.

    Variables: `invtemp`, a scalar, if `use_temperature`.
    """
    if use_temperature:
        x = x * get_variable("invtemp", [], initializer=tf.constant_initializer(1.0 / temperature_init))
    return tf.nn.softmax(x, name="output")


@layer_register(use_scope=None)
def ResizeImages(images: tf.Tensor, size: Any, method: int = 0, align_corners: bool = False) -> tf.Tensor:  # noqa: N802
    """
    Resize [N, H, W, C] images.

    Args:
        images: [N, H, W, C].
        size: (height, width).
        method: one of `tf.image.ResizeMethod`; the default is bilinear.
        align_corners: see `tf.image.resize_images` of TensorFlow 1.
    """
    return tf.image.resize_images(images, size, method=method, align_corners=align_corners)


@layer_register(log_shape=True)
def BilinearUpSample(x: tf.Tensor, shape: int) -> tf.Tensor:  # noqa: N802
    """
    Enlarge [N, H, W, C] images by bilinear interpolation, as a bilinear filler of Caffe does.

    Args:
        x: [N, H, W, C].
        shape: the factor, a whole number.

    Returns:
        A float32 tensor [N, H * shape, W * shape, C] named `output`.

    Difference from tensorpack: tensorpack adds up the channels. This layer enlarges each channel separately.
    """
    size = tf.shape(x)[1:3] * int(shape)
    y = tf.raw_ops.ResizeBilinear(images=x, size=size, half_pixel_centers=True, name="output")
    y.set_shape([None, *[side and side * int(shape) for side in x.shape.as_list()[1:3]], None])
    return y


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=["filters", "kernel_size"], name_mapping=_NAME_MAPPING)
def SeparableConv2D(  # noqa: N802, PLR0913 (the arguments of a convolution)
    inputs: tf.Tensor,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int = 1,
    padding: str = "same",
    depth_multiplier: int = 1,
    use_bias: bool = True,
    activation: Callable[[tf.Tensor], tf.Tensor] | None = None,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    bias_initializer: Callable[..., tf.Tensor] | None = None,
) -> tf.Tensor:
    """
    Convolve each channel of [N, H, W, C] by itself, then mix the channels of each pixel.

    Args:
        inputs: [N, H, W, C]; C must be known.
        filters: the number of channels of the output.
        kernel_size: the size of the depthwise kernel, one int or [height, width].
        strides: the stride in both directions.
        padding: "same" or "valid".
        depth_multiplier: the number of depthwise kernels for each channel.
        use_bias: whether to add a bias.
        activation: a function of one tensor; None is the identity.
        kernel_initializer: for both kernels; None is variance scaling with scale 2.
        bias_initializer: None is zeros.

    Returns:
        A tensor named `output`, with `.variables`.

    Variables: `depthwise_W` [height, width, C, depth_multiplier], `pointwise_W` [1, 1, C depth_multiplier, filters] and
    `b` [filters].
    """
    channels = int(inputs.shape[-1])
    kernel = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    initializer = kernel_initializer or tf.variance_scaling_initializer(2.0)
    depthwise = get_variable("depthwise_W", [*kernel, channels, depth_multiplier], initializer=initializer)
    pointwise = get_variable("pointwise_W", [1, 1, channels * depth_multiplier, filters], initializer=initializer)
    outputs = tf.nn.separable_conv2d(inputs, depthwise, pointwise, [1, strides, strides, 1], padding=padding.upper())
    variables = VariableHolder(depthwise_W=depthwise, pointwise_W=pointwise)
    if use_bias:
        variables.b = get_variable("b", [filters], initializer=bias_initializer or tf.zeros_initializer())
        outputs = tf.nn.bias_add(outputs, variables.b)
    outputs = tf.identity(get_activation(activation)(outputs), name="output")
    outputs.variables = variables
    return outputs
