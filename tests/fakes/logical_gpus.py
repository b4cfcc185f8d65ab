"""Several logical GPUs on one real GPU, for tests of many devices: `TENSORPACK_LITE_LOGICAL_GPUS=2 pytest -m gpu`."""

from __future__ import annotations

import functools
import os

import pytest

from tensorpack_lite.utils.gpu import count_gpus, get_num_gpu

__all__ = ["VARIABLE", "check", "divide_config", "install", "need_gpus", "need_real_gpus"]

VARIABLE = "TENSORPACK_LITE_LOGICAL_GPUS"
_MEMORY_MB = 3072  # of each logical GPU


def check() -> None:
    """
    Check that the machine has a GPU if the environment asks for logical ones.

    Raises:
        pytest.UsageError: it has none.
    """
    if os.environ.get(VARIABLE) and not count_gpus():
        raise pytest.UsageError(
            f"{VARIABLE} is set, but neither NVML nor nvidia-smi finds a GPU. `tensorpack-lite env --gpu` tells why."
        )


def install() -> None:
    """
    Let all sessions of this process divide the first GPU, and let the library count the parts, if the environment asks for it.

    A machine with enough GPUs uses them instead. TensorFlow divides a GPU once, so each session must ask for the same division.
    """
    count = int(os.environ.get(VARIABLE) or 0)
    if (count_gpus() or 0) >= count:
        return
    from tensorpack_lite.compat import tfv1 as tf

    os.environ["TENSORPACK_LITE_PRETEND_GPU"] = str(count)  # what `get_num_gpu` returns
    original = tf.Session.__init__

    @functools.wraps(original)
    def initialize(self, target="", graph=None, config=None):
        original(self, target, graph, divide_config(config, count))

    tf.Session.__init__ = initialize


def divide_config(config, count):
    """Return a copy of a `ConfigProto` or None, with `count` logical GPUs on the first GPU."""
    from tensorpack_lite.compat import tfv1 as tf

    divided = tf.ConfigProto()
    if config is not None:
        divided.CopyFrom(config)
    divided.gpu_options.visible_device_list = "0"
    del divided.gpu_options.experimental.virtual_devices[:]
    divided.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[_MEMORY_MB] * count)
    return divided


def need_gpus(count: int) -> None:
    """Skip the test if there are fewer GPUs, real or logical."""
    if get_num_gpu() < count:
        pytest.skip(f"needs {count} GPUs, real or logical (set {VARIABLE}={count})")


def need_real_gpus(count: int, why: str) -> None:
    """Skip the test if the machine has fewer GPUs."""
    if (count_gpus() or 0) < count:
        pytest.skip(f"needs {count} real GPUs, because {why}")
