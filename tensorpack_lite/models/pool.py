"""Pooling and unpooling of images."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..tfutils.precision import to_float32
from ..tfutils.symbolic_functions import compute_in_float32
from ..utils.argtools import get_data_format, shape4d
from .arguments import convert_to_tflayer_args
from .checks import layer_title, require_padding, require_pair, require_rank
from .layout import convert_layout, get_kernel_format
from .registry import layer_register
from .shape_utils import StaticDynamicShape

# of a sum in 16 bits, e.g. the gradient of a maximum over windows of 3 x 3 pixels with stride 2
_MOST_TERMS = 4
_NAME_MAPPING = {"shape": "pool_size", "stride": "strides"}


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=["pool_size", "strides"], name_mapping=_NAME_MAPPING)
def MaxPooling(
    inputs: tf.Tensor,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
) -> tf.Tensor:
    """
    Return the maximum of each window, called `MaxPooling(name, inputs, pool_size, ...)`.

    Shapes: [N, H, W, C] -> [N, H', W', C]; H' = ceil((H - pool + 1) / stride) with padding "valid", ceil(H /
    stride) with "same".

    Args:
        inputs: [N, H, W, C] or [N, C, H, W].
        pool_size: an integer, or (height, width); any integral number.
        strides: the same. None means `pool_size`.
        padding: "valid" or "same", in any case. The default differs from that of Conv2D.
        data_format: as in Conv2D.

    Returns:
        A tensor named `<name>/output`.

    Raises:
        ValueError: the rank is wrong, or a number is not a positive integer.
        TypeError: a number has another type.

    Old names of arguments: shape, stride.
    """
    return _pool(tf.nn.max_pool, "MaxPooling", inputs, pool_size, strides, padding, data_format)


@layer_register(log_shape=True)
@convert_to_tflayer_args(args_names=["pool_size", "strides"], name_mapping=_NAME_MAPPING)
def AvgPooling(
    inputs: tf.Tensor,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
) -> tf.Tensor:
    """
    Return the mean of each window, called `AvgPooling(name, inputs, pool_size, ...)`.

    With padding "same", pixels outside of the image do not count.

    Shapes: as in MaxPooling.

    Args:
        inputs, pool_size, strides, padding, data_format: as in MaxPooling.

    Returns:
        A tensor named `<name>/output`.

    Raises:
        ValueError: the rank is wrong, or a number is not a positive integer.
        TypeError: a number has another type.

    Old names of arguments: shape, stride.
    """
    return _pool(tf.nn.avg_pool, "AvgPooling", inputs, pool_size, strides, padding, data_format)


@layer_register(log_shape=True)
def GlobalAvgPooling(x: tf.Tensor, data_format: str = "channels_last") -> tf.Tensor:
    """
    Return the mean of each channel over the whole image, called `GlobalAvgPooling(name, x)`.

    Shapes: [N, H, W, C] -> [N, C].

    Args:
        x: [N, H, W, C] or [N, C, H, W].
        data_format: as in Conv2D.

    Returns:
        A tensor named `<name>/output`.

    Raises:
        ValueError: the rank is wrong.

    Source: Lin, Chen, Yan 2013, "Network in network", section 3.2.
    """
    data_format = get_data_format(data_format)
    x = to_float32(require_rank("GlobalAvgPooling", x, (4,), data_format))
    mean = partial(tf.reduce_mean, axis=[1, 2] if data_format == "channels_last" else [2, 3])
    return tf.identity(compute_in_float32(mean, x), name="output")


@layer_register(log_shape=True)
def FixedUnPooling(
    x: tf.Tensor,
    shape: int | Sequence[int],
    unpool_mat: np.ndarray | tf.Tensor | None = None,
    data_format: str = "channels_last",
) -> tf.Tensor:
    """
    Replace each pixel by a multiple of one matrix, called `FixedUnPooling(name, x, shape, ...)`.

    The output is the Kronecker product of each channel with the matrix.

    Shapes: [N, H, W, C] -> [N, H * shape[0], W * shape[1], C].

    Args:
        x: [N, H, W, C] or [N, C, H, W].
        shape: the shape of the matrix, an integer or (height, width).
        unpool_mat: the matrix, an array or tensor of this shape. None means 1 at the upper left and 0 elsewhere.
        data_format: as in Conv2D.

    Returns:
        A tensor named `<name>/output`.

    Raises:
        ValueError: the rank is wrong, or the matrix has another shape.
    """
    data_format = get_data_format(data_format)
    x = require_rank("FixedUnPooling", x, (4,), data_format)
    height, width = require_pair("FixedUnPooling", "shape", shape)
    matrix = _unpool_matrix(unpool_mat, height, width, x.dtype.base_dtype)

    sizes = StaticDynamicShape(x)
    height_axis = 1 if data_format == "channels_last" else 2
    # Each axis of the matrix between two axes of the images: five axes, the limit of broadcasting on TensorFlow 1.15.
    columns = sizes.get_dynamic(height_axis + 1)
    channels = sizes.get_dynamic(3) if data_format == "channels_last" else 1
    pixels = tf.reshape(x, tf.stack([-1, 1, columns, 1, channels]))
    products = compute_in_float32(tf.multiply, pixels, tf.reshape(matrix, [1, height, 1, width, 1]))
    sizes.apply(height_axis, lambda rows: rows * height)
    sizes.apply(height_axis + 1, lambda columns: columns * width)
    outputs = tf.reshape(products, tf.stack(sizes.get_dynamic()), name="output")
    outputs.set_shape(sizes.get_static())
    return outputs


def _pool(
    function: Callable[..., tf.Tensor],
    layer: str,
    inputs: tf.Tensor,
    pool_size: int | Sequence[int],
    strides: int | Sequence[int] | None,
    padding: str,
    data_format: str,
) -> tf.Tensor:
    inputs = require_rank(layer, inputs, (4,), data_format)
    pool_size = require_pair(layer, "pool_size", pool_size)
    strides = pool_size if strides is None else require_pair(layer, "strides", strides)
    kernel_format = get_kernel_format(data_format)
    pool = partial(
        function,
        ksize=shape4d(pool_size, kernel_format),
        strides=shape4d(strides, kernel_format),
        padding=require_padding(layer, padding),
        data_format=kernel_format,
    )
    # the gradient of a maximum is the sum over all windows with this pixel
    is_sum = function is tf.nn.avg_pool or _num_windows(pool_size, strides) > _MOST_TERMS
    images = convert_layout(inputs, data_format, kernel_format)
    pooled = compute_in_float32(pool, images) if is_sum else pool(images)
    return tf.identity(convert_layout(pooled, kernel_format, data_format), name="output")


def _num_windows(pool_size: Sequence[int], strides: Sequence[int]) -> int:
    """Return the largest number of windows that share a pixel."""
    return int(np.prod([-(-size // stride) for size, stride in zip(pool_size, strides)]))


def _unpool_matrix(matrix: Any, height: int, width: int, dtype: tf.DType) -> tf.Tensor:
    if matrix is None:
        matrix = np.zeros([height, width])
        matrix[0, 0] = 1
    if not isinstance(matrix, tf.Tensor):
        matrix = tf.constant(matrix, dtype=dtype, name="unpool_mat")
    if matrix.shape.as_list() != [height, width]:
        raise ValueError(
            f"{layer_title('FixedUnPooling')}: unpool_mat has the wrong shape (expected {[height, width]}, got "
            f"{matrix.shape.as_list()})."
        )
    return matrix
