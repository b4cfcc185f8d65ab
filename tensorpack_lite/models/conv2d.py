"""Convolution of images, and its transpose."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..tfutils.reads import shared_read
from ..utils.argtools import shape2d, shape4d
from ..utils.gpu import get_num_gpu
from .arguments import convert_to_tflayer_args
from .checks import layer_title, require_known_channels, require_padding, require_rank
from .layout import convert_layout, get_kernel_format
from .outputs import bias_and_activate
from .registry import layer_register, register_alias
from .shape_utils import StaticDynamicShape
from .variables import default_kernel_initializer

__all__ = ["Conv2D", "Conv2DTranspose", "Deconv2D"]

_OLD_NAMES = {"out_channel": "filters", "kernel_shape": "kernel_size", "stride": "strides"}


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=["filters", "kernel_size"], name_mapping=_OLD_NAMES)
def Conv2D(
    inputs: Any,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: str = "same",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = (1, 1),
    activation: Callable[[Any], Any] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    split: int = 1,
) -> Any:
    """
    Convolve images, called `Conv2D(name, inputs, filters, kernel_size, ...)`.

    Shapes: [N, H, W, C] -> [N, H', W', filters]; H' = ceil(H / stride) with padding "same",
    ceil((H - dilation * (kernel - 1)) / stride) with "valid".

    Args:
        inputs: [N, H, W, C] or [N, C, H, W] of any floating dtype; C must be known. Variables have its dtype.
        filters: the number of output channels.
        kernel_size, strides, dilation_rate: an integer, or (height, width).
        padding: "same" or "valid", in any case.
        data_format: "channels_last" ("NHWC") or "channels_first" ("NCHW"; without a GPU it is computed in the other order).
        activation: a function of one tensor, called inside the layer's scope; or the name of one in `tf.nn`.
        use_bias: whether there is a `b`.
        kernel_initializer: None means normal with standard deviation sqrt(2 / fan_in), not truncated.
        bias_initializer: None means zeros.
        kernel_regularizer, bias_regularizer: variable -> scalar, put into REGULARIZATION_LOSSES when the variable is made.
        activity_regularizer: output -> scalar, put there divided by N, at each call.
        split: G > 1 makes G groups: group g of the output sees only group g of the input channels.

    Returns:
        A tensor named `<name>/output`, with `.variables.W` and `.variables.b`.

    Raises:
        ValueError: wrong rank, unknown C, C or filters no multiple of split, strides and dilation both above 1.

    Variables: `W` [kh, kw, C / split, filters] and `b` [filters], trained.

    Example:
        >>> x = Conv2D("conv0", image, 32, 3, activation=BNReLU)

    Note: without a GPU, groups are computed one after the other: TensorFlow has no gradient for all of them at once there.

    tensorpack: same; there regularizers are refused when split or dilation_rate is not 1. Old names of arguments:
    out_channel, kernel_shape, stride, nl, W_init, b_init.
    """
    inputs = require_rank("Conv2D", inputs, (4,), data_format)
    channel_axis = 3 if data_format == "channels_last" else 1
    channels = require_known_channels("Conv2D", inputs, channel_axis)
    strides, dilation = shape2d(strides), shape2d(dilation_rate)
    _check_groups(channels, filters, split)
    _check_dilation(strides, dilation)
    padding = require_padding("Conv2D", padding)

    kernel = tf.get_variable(
        "W",
        shape2d(kernel_size) + [channels // split, filters],
        dtype=inputs.dtype.base_dtype,
        initializer=kernel_initializer or default_kernel_initializer(),
        regularizer=kernel_regularizer,
    )

    kernel_format = get_kernel_format(data_format)

    def convolve(images: Any, weights: Any) -> Any:
        return _convolve(images, weights, strides, padding, dilation, kernel_format)

    images = convert_layout(inputs, data_format, kernel_format)
    weights = shared_read(kernel)
    if split == 1 or (dilation == [1, 1] and get_num_gpu() > 0):
        outputs = convolve(images, weights)
    else:
        split_axis = kernel_format.index("C")
        groups = zip(tf.split(images, split, split_axis), tf.split(weights, split, 3))
        outputs = tf.concat([convolve(*group) for group in groups], split_axis)
    return bias_and_activate(
        convert_layout(outputs, kernel_format, data_format),
        kernel,
        data_format,
        activation,
        use_bias=use_bias,
        bias_initializer=bias_initializer,
        bias_regularizer=bias_regularizer,
        activity_regularizer=activity_regularizer,
    )


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=["filters", "kernel_size", "strides"], name_mapping=_OLD_NAMES)
def Conv2DTranspose(
    inputs: Any,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: str = "same",
    data_format: str = "channels_last",
    activation: Callable[[Any], Any] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
) -> Any:
    """
    Convolve backwards: the gradient of a convolution, used to enlarge images. `Deconv2D` is the same function.

    Shapes: [N, H, W, C] -> [N, H', W', filters]; H' = H * stride with padding "same", H * stride + max(kernel - stride, 0)
    with "valid". A size that is unknown stays unknown.

    Args:
        inputs, filters, kernel_size, strides, padding, data_format, activation: as in Conv2D.
        use_bias, kernel_initializer, bias_initializer: as in Conv2D.
        kernel_regularizer, bias_regularizer, activity_regularizer: as in Conv2D.

    Returns:
        A tensor named `<name>/output`, with `.variables.W` and `.variables.b`.

    Raises:
        ValueError: wrong rank, unknown C.

    Variables: `W` [kh, kw, filters, C] (output channels before input channels) and `b` [filters], trained.

    Example:
        >>> x = Conv2DTranspose("up0", x, 64, 4, strides=2)         # [N, 7, 7, C] -> [N, 14, 14, 64]

    tensorpack: same; there regularizers are refused.
    """
    inputs = require_rank("Conv2DTranspose", inputs, (4,), data_format)
    channel_axis = 3 if data_format == "channels_last" else 1
    channels = require_known_channels("Conv2DTranspose", inputs, channel_axis)
    kernel_size, strides = shape2d(kernel_size), shape2d(strides)
    padding = require_padding("Conv2DTranspose", padding)

    kernel = tf.get_variable(
        "W",
        kernel_size + [filters, channels],
        dtype=inputs.dtype.base_dtype,
        initializer=kernel_initializer or default_kernel_initializer(),
        regularizer=kernel_regularizer,
    )
    kernel_format = get_kernel_format(data_format)
    images = convert_layout(inputs, data_format, kernel_format)
    shape = _transposed_shape(images, filters, kernel_size, strides, padding, kernel_format)
    outputs = tf.nn.conv2d_transpose(
        images,
        shared_read(kernel),
        tf.stack(shape.get_dynamic()),
        shape4d(strides, kernel_format),
        padding=padding,
        data_format=kernel_format,
    )
    outputs.set_shape(shape.get_static())
    return bias_and_activate(
        convert_layout(outputs, kernel_format, data_format),
        kernel,
        data_format,
        activation,
        use_bias=use_bias,
        bias_initializer=bias_initializer,
        bias_regularizer=bias_regularizer,
        activity_regularizer=activity_regularizer,
    )


Deconv2D = Conv2DTranspose
register_alias("Deconv2D", Conv2DTranspose)


def _convolve(
    images: Any, kernel: Any, strides: list[int], padding: str, dilation: list[int], kernel_format: str
) -> Any:
    if dilation == [1, 1]:
        strides = shape4d(strides, kernel_format)
        return tf.nn.conv2d(images, kernel, strides=strides, padding=padding, data_format=kernel_format)
    # Not `tf.nn.conv2d(dilations=...)`: on CPUs TensorFlow 1.15 has no gradient for it.
    return tf.nn.convolution(images, kernel, padding, dilation_rate=dilation, data_format=kernel_format)


def _transposed_shape(
    images: Any, filters: int, kernel_size: list[int], strides: list[int], padding: str, kernel_format: str
) -> StaticDynamicShape:
    """Compute the shape of which a convolution with these arguments makes that of `images`."""
    shape = StaticDynamicShape(images)
    for axis, kernel, stride in zip("HW", kernel_size, strides):
        border = max(kernel - stride, 0) if padding == "VALID" else 0
        shape.apply(kernel_format.index(axis), lambda size, s=stride, b=border: size * s + b)
    shape.apply(kernel_format.index("C"), lambda _: filters)
    return shape


def _check_groups(channels: int, filters: int, split: int) -> None:
    if split < 1 or channels % split or filters % split:
        raise ValueError(
            f"{layer_title('Conv2D')}: split is {split}, wanted a divisor of both the {channels} input channels and the "
            f"{filters} filters."
        )


def _check_dilation(strides: list[int], dilation: list[int]) -> None:
    if dilation != [1, 1] and strides != [1, 1]:
        raise ValueError(
            f"{layer_title('Conv2D')}: strides is {strides} and dilation_rate {dilation}, but only one of them can differ "
            "from 1."
        )
