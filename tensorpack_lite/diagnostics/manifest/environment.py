"""Description of the machine, the installed packages, and the environment variables that influence a training."""

from __future__ import annotations

import os
import platform
import re
import sys
from typing import Any

import psutil

from ...utils.cores import usable_cores
from ...utils.process_state import read_text

# Manifests contain these environment variables and no others, because others may be secrets.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "KMP_AFFINITY", "KMP_BLOCKTIME", "MKL_NUM_THREADS", "NCCL_ALGO", "NCCL_PROTO",
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED", "TENSORPACK_DATASET", "TENSORPACK_LITE_RUN",
    "TF_CUDNN_DETERMINISTIC", "TF_CUDNN_USE_AUTOTUNE", "TF_CUDNN_USE_FRONTEND", "TF_DETERMINISTIC_OPS",
    "TF_DISABLE_MKL", "TF_ENABLE_AUTO_MIXED_PRECISION", "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR", "TF_GPU_THREAD_COUNT", "TF_GPU_THREAD_MODE", "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS", "TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT", "TF_USE_LEGACY_KERAS",
    "TF_XLA_FLAGS", "XLA_FLAGS",
)  # fmt: skip

_DISTRIBUTION = re.compile(r"(.+?)-([^-]+)(-py[\d.]+)?\.(dist|egg)-info")


def describe_packages() -> dict[str, str]:
    """Return the versions of Python and of all installed distributions, by name, from the names of their directories."""
    packages: dict[str, str] = {}
    for directory in sys.path:
        for entry in os.listdir(directory) if os.path.isdir(directory) else ():
            found = _DISTRIBUTION.fullmatch(entry)
            if found:
                packages.setdefault(re.sub(r"[-_.]+", "-", found.group(1)).lower(), found.group(2))
    return {"python": platform.python_version(), **dict(sorted(packages.items()))}


def describe_variables() -> dict[str, str]:
    """Return those environment variables of `VARIABLES` that are set."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def describe_machine() -> dict[str, Any]:
    """Return the host, system, processor, number of usable cores, memory in bytes, GPUs and their driver."""
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _find(r"model name\s*: (.*)", "/proc/cpuinfo") or platform.processor(),
        "cores": os.cpu_count(),
        "usable cores": usable_cores(),
        "memory": psutil.virtual_memory().total,
        "GPUs": _gpus(),
        "GPU driver": _find(r"(Kernel Module .*?)  ", "/proc/driver/nvidia/version"),
    }


def _gpus() -> list[str]:
    """Return the models of the GPUs. Unlike NVML, files of the driver need no package and cannot hang."""
    directory = "/proc/driver/nvidia/gpus"
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return [_find(r"Model:\s*(.*)", f"{directory}/{name}/information") or "unknown" for name in names]


def _find(pattern: str, path: str) -> str | None:
    """Return the first group of a pattern in a file; None if there is no match or no file."""
    found = re.search(pattern, read_text(path))
    return found.group(1).strip() if found else None
