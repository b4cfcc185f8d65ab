"""The report of `tensorpack-lite env --gpu`: GPUs, driver, libraries, TensorFlow's build, and advice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any, NamedTuple, Sequence

from tabulate import tabulate

from .messages import explain_messages

_QUERY = "index,name,compute_cap,memory.total,driver_version"
_DRIVER_FILE = "/proc/driver/nvidia/version"
_LIBRARIES = (
    "libcuda", "libcudart", "libcublas", "libcudnn", "libcufft", "libcusolver", "libcusparse", "libnccl",
)  # fmt: skip
_SECONDS = 1800  # the driver may compile all kernels for a GPU that TensorFlow does not know
_MODULE = "tensorpack_lite.diagnostics.gpu.probe"


class GPUReport(NamedTuple):
    """
    The report.

    Attributes:
        text: the tables and the advice.
        works: whether TensorFlow has computed something on a GPU.
    """

    text: str
    works: bool


class _Gpu(NamedTuple):
    """A GPU that nvidia-smi lists; all values are text."""

    number: str
    name: str
    capability: str
    memory: str
    driver: str


def make_gpu_report() -> GPUReport:
    """
    Describe the GPUs of this machine, and compute something on each that TensorFlow uses, in another process.

    It never raises an error. The computation takes seconds, or up to 30 minutes if the driver has to compile TensorFlow's kernels.
    """
    gpus, trouble = _ask_nvidia_smi()
    found, log = _probe()
    devices = found.get("devices", [])
    works = any(device["error"] is None for device in devices)
    build, libraries = found.get("build", {}), found.get("libraries", {})
    rows = [(f"GPU {gpu.number}", f"{gpu.name}, {gpu.memory}, compute capability {gpu.capability}") for gpu in gpus]
    rows += [
        ("nvidia-smi", trouble or f"lists {len(gpus)} GPUs"),
        ("driver", gpus[0].driver if gpus else _read_driver()),
        ("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", "not set")),
        ("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", "not set")),
        ("TensorFlow", found.get("tensorflow", "cannot be imported")),
        ("built with CUDA", _show_build(found.get("has_cuda", False), build)),
        ("built for", ", ".join(build.get("cuda_compute_capabilities", [])) or "unknown"),
    ]
    rows += [(name, libraries.get(name, "not loaded")) for name in _LIBRARIES]
    rows += [
        (
            device["name"],
            device["error"] or f"computes ({device['seconds']} s for a product and a convolution)",
        )
        for device in devices
    ]
    advice = _advise(gpus, found, log)
    table = tabulate(rows, tablefmt="plain", disable_numparse=True)
    return GPUReport("\n".join([table, "", *advice]), works)


def _ask_nvidia_smi() -> tuple[list[_Gpu], str]:
    """Return the GPUs, and what is wrong if there are none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return [], "not found"
    try:
        answer = subprocess.run(
            [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], str(error)
    rows = [[part.strip() for part in line.split(",")] for line in answer.stdout.splitlines()]
    gpus = [_Gpu(*row) for row in rows if len(row) == len(_Gpu._fields)]
    return gpus, "" if gpus else answer.stdout.strip() or "lists no GPU"


def _probe() -> tuple[dict[str, Any], str]:
    """Return what the probe has found, and TensorFlow's log. If the process has crashed, what it has found is empty."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"}
    try:
        process = subprocess.run(
            [sys.executable, "-m", _MODULE], capture_output=True, text=True, errors="replace", env=environment,
            timeout=_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {}, f"TensorFlow did not finish within {_SECONDS} s."
    lines = process.stdout.splitlines()
    if process.returncode == 0 and lines:
        return json.loads(lines[-1]), process.stderr
    return {}, f"{process.stderr}\nThe process with TensorFlow ended with exit code {process.returncode}."


def _read_driver() -> str:
    if not os.path.exists(_DRIVER_FILE):
        return "not loaded"
    with open(_DRIVER_FILE) as file:
        return file.readline().strip()


def _show_build(has_cuda: bool, build: dict[str, str]) -> str:
    if not has_cuda:
        return "no"
    known = [
        f"{name} {build[key]}" for name, key in (("CUDA", "cuda_version"), ("cuDNN", "cudnn_version")) if key in build
    ]
    return f"yes ({', '.join(known)})" if known else "yes"


def _advise(gpus: Sequence[_Gpu], found: dict[str, Any], log: str) -> list[str]:
    devices = found.get("devices", [])
    if not found:
        last = log.strip().splitlines()[-1:]
        return [*explain_messages(log), *last]
    if not found["has_cuda"]:
        package = "tensorflow-gpu==1.15.5" if found["tensorflow"].startswith("1.") else "tensorflow[and-cuda]"
        return [f'This TensorFlow was built without CUDA and uses no GPU. Run: pip install "{package}"']
    errors = [f"{device['error']}\n" for device in devices if device["error"] is not None]
    sentences = explain_messages(log + "".join(errors))
    if not devices:
        return sentences or [
            "TensorFlow finds no GPU, and its log does not tell why. Compare CUDA_VISIBLE_DEVICES with the list of nvidia-smi."
        ]
    number = len(devices) - len(errors)
    usable = f"TensorFlow uses {number} GPU{'' if number == 1 else 's'}."
    if gpus and len(devices) < len(gpus):
        sentences.append(f"nvidia-smi lists {len(gpus)} GPUs, TensorFlow {len(devices)}: see CUDA_VISIBLE_DEVICES.")
    return [usable, *sentences]
