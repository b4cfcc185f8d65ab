"""How many GPUs this process may use, and hiding some."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import Iterator

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
        val: the GPU, or a comma-separated list; -1 hides all; None changes nothing.

    tensorpack: same; there None sets the variable to "None".
    """
    if val is None:
        yield
        return
    with change_env(_VISIBLE, "" if str(val) == "-1" else str(val)):
        yield


def get_num_gpu() -> int:
    """
    Count the GPUs that this process may use.

    Those named in `CUDA_VISIBLE_DEVICES`; where it is not set, all that NVML or nvidia-smi know of.

    Returns:
        0 on a machine without GPUs, quietly.

    Raises:
        ValueError: `CUDA_VISIBLE_DEVICES` names more GPUs than the machine has.

    tensorpack: same; there an empty variable counts all GPUs, and a set one fails without NVML.
    """
    visible = os.environ.get(_VISIBLE)
    if visible is None:
        return _count_all() or 0
    named = _named_devices(visible)
    existing = _count_all()
    if existing is not None and all(name.isdigit() for name in named) and len(named) > existing:
        raise ValueError(
            f"{_VISIBLE}={visible} names {len(named)} GPUs, but the machine has {existing}. Correct the variable."
        )
    return len(named)


get_nr_gpu = get_num_gpu


def _named_devices(visible: str) -> list[str]:
    """Read the variable as CUDA does: the list ends at the first entry that is not a device."""
    named = []
    for entry in visible.split(","):
        name = entry.strip()
        if not name or name.startswith("-"):
            break
        named.append(name)
    return named


def _count_all() -> int | None:
    """Count the GPUs of the machine; None when there is nothing to ask."""
    try:
        with NVMLContext() as nvml:
            return nvml.num_devices()
    except NvmlException:  # no driver, or one that does not work: ask the program
        return _count_by_nvidia_smi()


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
