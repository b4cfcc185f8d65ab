"""Number of GPUs that this process may use, and a context that hides some of them."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import Iterator

from .argtools import memoized
from .nvml import NVMLContext, NvmlException
from .utils import change_env

__all__ = ["change_gpu", "get_nr_gpu", "get_num_gpu"]

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_TIMEOUT_SECONDS = 20


@contextmanager
def change_gpu(val: int | str | None) -> Iterator[None]:
    """
    Set `CUDA_VISIBLE_DEVICES` inside the context.

    Args:
        val: the GPU, or a comma-separated list; -1 hides all GPUs; None changes nothing.
    """
    if val is None:
        yield
        return
    with change_env(_VISIBLE, "" if str(val) == "-1" else str(val)):
        yield


def get_num_gpu() -> int:
    """
    Return the number of GPUs that this process may use.

    If `CUDA_VISIBLE_DEVICES` is set, its entries count. Otherwise NVML is asked if `nvidia-ml-py` is installed, and the
    program nvidia-smi if it is not. A machine without GPUs has 0, without a warning.

    In a script that `tensorpack-lite run --pretend-gpu` started, it is the number that was passed there.

    Raises:
        ValueError: `CUDA_VISIBLE_DEVICES` names more GPUs than the machine has.
    """
    if pretended_gpus():
        return pretended_gpus()
    visible = os.environ.get(_VISIBLE)
    if visible is None:
        return count_gpus() or 0
    # like CUDA, which ends the list at the first entry that is not a device
    entries = map(str.strip, visible.split(","))
    named = list(itertools.takewhile(lambda name: name and not name.startswith("-"), entries))
    existing = count_gpus()
    if existing is not None and all(name.isdigit() for name in named) and len(named) > existing:
        raise ValueError(
            f"get_num_gpu: {_VISIBLE}={visible} names too many GPUs (expected at most {existing}, got {len(named)}). "
            "Correct the variable."
        )
    return len(named)


get_nr_gpu = get_num_gpu


def pretended_gpus() -> int:
    """Return the number that was passed to `tensorpack-lite run --pretend-gpu`; 0 without it."""
    return int(os.environ.get("TENSORPACK_LITE_PRETEND_GPU") or 0)


def count_gpus() -> int | None:
    """Count the GPUs of the machine. None if neither NVML nor nvidia-smi can tell."""
    try:
        with NVMLContext() as nvml:
            return nvml.num_devices()
    except (ImportError, NvmlException):
        return _count_by_nvidia_smi()


@memoized  # the program takes a second on some machines, and layers ask for the number
def _count_by_nvidia_smi() -> int | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        listing = subprocess.run(
            [program, "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):  # a driver that hangs has no usable GPU
        return None
    if listing.returncode != 0:
        return None
    return sum(line.startswith(b"GPU ") for line in listing.stdout.splitlines())  # MIG slices are indented
