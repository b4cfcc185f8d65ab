"""`tf.contrib.memory_stats`: memory of the current device, as tensors."""

from __future__ import annotations

from typing import Callable

import numpy as np

from ...compat import tensorflow
from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(__name__, same=("ops", "memory_stats_ops"))
_NO_LIMIT = -1


def BytesInUse() -> tf.Tensor:  # noqa: N802 (TensorFlow's name)
    """
    Return the bytes in use on the device of the `tf.device` scope, when the tensor is evaluated.

    Shapes: a scalar.

    Returns:
        An int64 tensor. It is 0 on a CPU, whose memory TensorFlow does not count.
    """
    return _statistic("BytesInUse", lambda device: _memory_info(device, "current"))


def MaxBytesInUse() -> tf.Tensor:  # noqa: N802 (TensorFlow's name)
    """Return the peak of `BytesInUse` since the process started, as a scalar int64 tensor."""
    return _statistic("MaxBytesInUse", lambda device: _memory_info(device, "peak"))


def BytesLimit() -> tf.Tensor:  # noqa: N802 (TensorFlow's name)
    """Return the bytes that TensorFlow may use on the current device, as a scalar int64 tensor; -1 without a limit."""
    return _statistic("BytesLimit", _limit)


def _statistic(name: str, measure: Callable[[str], int]) -> tf.Tensor:
    """Return a tensor that calls `measure` with the device of the current scope."""
    with tf.name_scope(name):
        device = tf.no_op("device").device
        with tf.device("/cpu:0"):
            value = tf.py_func(lambda: np.int64(measure(device)), [], tf.int64)
    value.set_shape([])
    return value


def _gpu(device: str) -> int | None:
    """Return the number of a GPU; None for another device, or without GPUs."""
    spec = tf.DeviceSpec.from_string(device)
    is_gpu = spec.device_type == "GPU" and tensorflow.config.list_physical_devices("GPU")
    return (spec.device_index or 0) if is_gpu else None


def _memory_info(device: str, key: str) -> int:
    gpu = _gpu(device)
    return 0 if gpu is None else tensorflow.config.experimental.get_memory_info(f"GPU:{gpu}")[key]


def _limit(device: str) -> int:
    gpu = _gpu(device)
    if gpu is None:
        return _NO_LIMIT
    physical = tensorflow.config.list_physical_devices("GPU")[gpu]
    logical = tensorflow.config.get_logical_device_configuration(physical)
    limit = logical[0].memory_limit if logical else None  # in MB
    return _NO_LIMIT if limit is None else int(limit) * 2**20
