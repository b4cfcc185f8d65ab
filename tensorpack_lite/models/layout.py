"""Conversions between the data formats of a layer and of TensorFlow's kernels."""

from __future__ import annotations

from ..compat import tfv1 as tf
from ..utils.argtools import get_data_format
from ..utils.gpu import get_num_gpu


def get_kernel_format(data_format: str) -> str:
    """
    Return the data format in which a convolution, pooling or fused normalization runs.

    Args:
        data_format: the data format of the layer, in either spelling.

    Returns:
        "NHWC" or "NCHW"; always "NHWC" without a GPU. On a CPU, TensorFlow 1.15 has no kernels for "NCHW",
        and a pooling of 2.15 returns wrong values if one of the same size has run in the other format before.
    """
    return get_data_format(data_format, keras_mode=False) if get_num_gpu() > 0 else "NHWC"


def convert_layout(images: tf.Tensor, source: str, target: str) -> tf.Tensor:
    """
    Transpose images from one data format to another; equal formats return the same tensor.

    Args:
        images: a tensor of rank 4.
        source, target: data formats in either spelling.
    """
    source, target = (get_data_format(name, keras_mode=False) for name in (source, target))
    if source == target:
        return images
    return tf.transpose(images, [source.index(axis) for axis in target])
