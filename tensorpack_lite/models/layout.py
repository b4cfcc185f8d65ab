"""The order of the axes of images: what a layer was asked for, and what TensorFlow has kernels for on this machine."""

from __future__ import annotations

from typing import Any

from ..compat import tfv1 as tf
from ..utils.argtools import get_data_format
from ..utils.gpu import get_num_gpu

__all__ = ["convert_layout", "get_kernel_format"]


def get_kernel_format(data_format: str) -> str:
    """
    Choose the order of axes in which a convolution, a pooling or a fused normalisation is computed.

    Args:
        data_format: the order asked for, in either spelling.

    Returns:
        "NHWC" or "NCHW"; always "NHWC" on a machine without GPUs. There TensorFlow 1.15 has no kernels for "NCHW", and
        with 2.15 a pooling gives wrong values if one of the same sizes has run in the other order before.
    """
    wanted = get_data_format(data_format, keras_mode=False)
    return wanted if get_num_gpu() > 0 else "NHWC"


def convert_layout(images: Any, source: str, target: str) -> Any:
    """
    Bring images from one order of axes to another; nothing is done where they are the same.

    Args:
        images: a tensor of rank 4.
        source, target: orders in either spelling.
    """
    source, target = (get_data_format(order, keras_mode=False) for order in (source, target))
    if source == target:
        return images
    return tf.transpose(images, [source.index(axis) for axis in target])
