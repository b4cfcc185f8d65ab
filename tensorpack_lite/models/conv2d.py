"""Convolution of images, and transposed convolution."""

from __future__ import annotations

from functools import partial
from typing import Callable, Sequence

from ..compat import tfv1 as tf
from ..tfutils.precision import multiply, read_as, to_compute_dtype
from ..utils.argtools import shape4d
from ..utils.gpu import get_num_gpu
from .arguments import convert_to_tflayer_args
from .checks import layer_title, require_integer, require_known_channels, require_padding, require_pair, require_rank
from .layout import convert_layout, get_kernel_format
from .outputs import bias_and_activate
from .registry import layer_register, register_alias
from .shape_utils import StaticDynamicShape
from .variables import create_kernel

_NAME_MAPPING = {"out_channel": "filters", "kernel_shape": "kernel_size", "stride": "strides"}


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=["filters", "kernel_size"], name_mapping=_NAME_MAPPING)
def Conv2D(
    inputs: tf.Tensor,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: str = "same",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = (1, 1),
    activation: Callable[[tf.Tensor], tf.Tensor] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    bias_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    bias_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    activity_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    split: int = 1,
) -> tf.Tensor:
    """
    Convolve images, called `Conv2D(name, inputs, filters, kernel_size, ...)`.

    Shapes: [N, H, W, C] -> [N, H', W', filters]; H' = ceil(H / stride) with padding "same",
    ceil((H - dilation * (kernel - 1)) / stride) with "valid".

    Args:
        inputs: [N, H, W, C] or [N, C, H, W] of any floating dtype; C must be known. Variables have its dtype.
        filters: the number of output channels.
        kernel_size, strides, dilation_rate: an integer, or (height, width). Any integral number is valid, here and in
            `filters`: 8.0, a NumPy integer, or `x.shape[3]`.
        padding: "same" or "valid", in any case.
        data_format: "channels_last" ("NHWC") or "channels_first" ("NCHW"). Without a GPU, the kernels run in "NHWC".
        activation: a function of one tensor, called inside the layer's scope, or the name of a function in `tf.nn`.
        use_bias: whether to add `b`.
        kernel_initializer: None means normal with standard deviation sqrt(2 / fan_in), not truncated.
        bias_initializer: None means zeros.
        kernel_regularizer, bias_regularizer: variable -> scalar, collected in REGULARIZATION_LOSSES when a
            variable is created.
        activity_regularizer: output -> scalar, collected there divided by N, at each call.
        split: the number of groups. Each group of output channels depends on one group of input channels.

    Returns:
        A tensor named `<name>/output`, with `.variables.W` and `.variables.b`.

    Raises:
        ValueError: the rank is wrong, C is unknown, C or filters is not a multiple of split, strides and
            dilation are combined, or a number is not a positive integer.
        TypeError: a number has another type.

    Variables: `W` [kh, kw, C / split, filters] and `b` [filters], trained.

    Example:
        >>> x = Conv2D("conv0", image, 32, 3, activation=BNReLU)

    Note: without a GPU, the groups are computed one after the other, because TensorFlow's grouped convolution
    has no gradient on a CPU.

    Old names of arguments: out_channel, kernel_shape, stride, nl, W_init, b_init.
    """
    inputs = to_compute_dtype(require_rank("Conv2D", inputs, (4,), data_format))
    channels = require_known_channels("Conv2D", inputs, 3 if data_format == "channels_last" else 1)
    filters = require_integer("Conv2D", "filters", filters)
    kernel_size = require_pair("Conv2D", "kernel_size", kernel_size)
    strides = require_pair("Conv2D", "strides", strides)
    dilation = require_pair("Conv2D", "dilation_rate", dilation_rate)
    split = require_integer("Conv2D", "split", split)
    padding = require_padding("Conv2D", padding)
    _check_combination(channels, filters, split, strides, dilation)
    kernel_shape = [*kernel_size, channels // split, filters]
    kernel = create_kernel(kernel_shape, inputs, kernel_initializer, kernel_regularizer)
    kernel_format = get_kernel_format(data_format)
    steps = shape4d(strides, kernel_format)
    convolve = partial(tf.nn.conv2d, strides=steps, padding=padding, data_format=kernel_format)
    if dilation != [1, 1]:  # on a CPU, TensorFlow 1.15 has no gradient of `tf.nn.conv2d(dilations=...)`
        convolve = partial(tf.nn.convolution, padding=padding, dilation_rate=dilation, data_format=kernel_format)
    images = convert_layout(inputs, data_format, kernel_format)
    weights = read_as(kernel, inputs.dtype)
    if split == 1 or (dilation == [1, 1] and get_num_gpu() > 0):
        outputs = multiply(convolve, images, weights)
    else:
        split_axis = kernel_format.index("C")
        groups = zip(tf.split(images, split, split_axis), tf.split(weights, split, 3))
        outputs = tf.concat([multiply(convolve, *group) for group in groups], split_axis)
    outputs = convert_layout(outputs, kernel_format, data_format)
    options = (activation, use_bias, bias_initializer, bias_regularizer, activity_regularizer)
    return bias_and_activate(outputs, kernel, data_format, *options)


def _check_combination(channels: int, filters: int, split: int, strides: list[int], dilation: list[int]) -> None:
    if channels % split or filters % split:
        raise ValueError(
            f"{layer_title('Conv2D')}: split is invalid (expected a divisor of both the {channels} input channels and the "
            f"{filters} filters, got {split})."
        )
    if dilation != [1, 1] and strides != [1, 1]:
        raise ValueError(
            f"{layer_title('Conv2D')}: strides and dilation_rate cannot be combined (got {strides} and {dilation}). Leave one "
            "of them at 1."
        )


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=["filters", "kernel_size", "strides"], name_mapping=_NAME_MAPPING)
def Conv2DTranspose(
    inputs: tf.Tensor,
    filters: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = (1, 1),
    padding: str = "same",
    data_format: str = "channels_last",
    activation: Callable[[tf.Tensor], tf.Tensor] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    bias_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    bias_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    activity_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.Tensor:
    """
    Apply the gradient of a convolution, e.g. to enlarge images. `Deconv2D` is the same function.

    Shapes: [N, H, W, C] -> [N, H', W', filters]; H' = H * stride with padding "same", H * stride + max(kernel
    - stride, 0) with "valid". An unknown size stays unknown.

    Args:
        inputs, filters, kernel_size, strides, padding, data_format, activation: as in Conv2D.
        use_bias, kernel_initializer, bias_initializer: as in Conv2D.
        kernel_regularizer, bias_regularizer, activity_regularizer: as in Conv2D.

    Returns:
        A tensor named `<name>/output`, with `.variables.W` and `.variables.b`.

    Raises:
        ValueError, TypeError: as in Conv2D.

    Variables: `W` [kh, kw, filters, C] (output channels before input channels) and `b` [filters], trained.

    Example:
        >>> x = Conv2DTranspose("up0", x, 64, 4, strides=2)         # [N, 7, 7, C] -> [N, 14, 14, 64]
    """
    inputs = to_compute_dtype(require_rank("Conv2DTranspose", inputs, (4,), data_format))
    channels = require_known_channels("Conv2DTranspose", inputs, 3 if data_format == "channels_last" else 1)
    filters = require_integer("Conv2DTranspose", "filters", filters)
    kernel_size = require_pair("Conv2DTranspose", "kernel_size", kernel_size)
    strides = require_pair("Conv2DTranspose", "strides", strides)
    padding = require_padding("Conv2DTranspose", padding)

    kernel = create_kernel([*kernel_size, filters, channels], inputs, kernel_initializer, kernel_regularizer)
    kernel_format = get_kernel_format(data_format)
    images = convert_layout(inputs, data_format, kernel_format)
    # The result has the shape of the images that a convolution with these arguments would turn into `images`.
    shape = StaticDynamicShape(images)
    for axis, size, stride in zip("HW", kernel_size, strides):
        border = max(size - stride, 0) if padding == "VALID" else 0
        shape.apply(kernel_format.index(axis), lambda old, s=stride, b=border: old * s + b)  # type: ignore[misc]
    shape.apply(kernel_format.index("C"), lambda _: filters)
    convolve = partial(
        tf.nn.conv2d_transpose,
        output_shape=tf.stack(shape.get_dynamic()),
        strides=shape4d(strides, kernel_format),
        padding=padding,
        data_format=kernel_format,
    )
    outputs = multiply(convolve, images, read_as(kernel, inputs.dtype))
    outputs.set_shape(shape.get_static())
    outputs = convert_layout(outputs, kernel_format, data_format)
    options = (activation, use_bias, bias_initializer, bias_regularizer, activity_regularizer)
    return bias_and_activate(outputs, kernel, data_format, *options)


Deconv2D = Conv2DTranspose
register_alias("Deconv2D", Conv2DTranspose)
