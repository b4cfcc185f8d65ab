"""Sentences for TensorFlow's messages about GPUs, from the text of its errors and its log. It needs no TensorFlow."""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence, Tuple

_SIZES = {
    "half": 2,
    "bfloat16": 2,
    "float": 4,
    "double": 8,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "int8": 1,
    "bool": 1,
}
_DTYPES = {"half": "float16", "float": "float32", "double": "float64"}
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_PIP = 'pip install "tensorflow[and-cuda]"'

_TENSOR = re.compile(
    r"OOM when allocating tensor with shape\[([\d,]*)\] and type (\w+) on \S*device:(\w+):(\d+)"
    r"(?: by allocator (\S+))?"
)
_BYTES = re.compile(
    r"[Oo]ut of memory while trying to allocate (\d+) bytes"
    r"|Failed to allocate request for [\d.]+\w+ \((\d+)B\)"
    r"|failed to allocate [\d.]+\w+ \((\d+) bytes\)"
)
_NODE = re.compile(r"\[\[\{?\{?node ([^\s}\]]+)")
_USED = re.compile(r"^\s+([\d.]+)([KMGT]?i?B) from (\S+)$", re.MULTILINE)

# patterns, and sentences that explain what is wrong and what to do; their fields are the groups of the pattern
_OF_DRIVER = (  # one of these explains all other messages
    (
        r"kernel version (\S+) does not match DSO version (\S+)",
        "The NVIDIA driver was updated while it was loaded: the kernel module is version {0}, the library libcuda is version {1}. "
        "Restart the machine, or give the container the driver of its host.",
    ),
    (
        r"CUDA driver version is insufficient for CUDA runtime version|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
        r"|CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "The NVIDIA driver is older than the CUDA with which TensorFlow was built. Update the driver, or install a TensorFlow for an "
        "older CUDA.",
    ),
    (
        r"Could not load dynamic library 'libcuda\.so|libcuda\.so\S*: cannot open|Could not find cuda drivers"
        r"|Cannot find cuda drivers|cuInit: UNKNOWN ERROR \(303\)",
        "The NVIDIA driver is not installed, because its library libcuda.so.1 is not found. Install the driver; in a container, start "
        "it with the GPUs (docker run --gpus all).",
    ),
    (
        r"CUDA_ERROR_NO_DEVICE|no CUDA-capable device is detected",
        "The NVIDIA driver works, but this process sees no GPU. Check CUDA_VISIBLE_DEVICES, and that the container or job got a GPU.",
    ),
    (
        r"failed call to cuInit: (?!UNKNOWN ERROR \(303\)|CUDA_ERROR_NO_DEVICE)(\w+)",
        "The NVIDIA driver cannot be started ({0}). If nvidia-smi fails, too, restart the machine or install the driver again.",
    ),
)
_OTHERS = (
    (
        r"[Ii]gnoring visible gpu device .*compute capability:? (\d+\.\d+)\)?.*"
        r"minimum required (?:Cuda|CUDA) capability is (\d+\.\d+)",
        "This TensorFlow does not use the GPU, because its compute capability {0} is below {1}, the oldest that was built in. "
        "Install an older TensorFlow, or use a newer GPU.",
    ),
    (
        r"not built with CUDA kernel binaries compatible with compute capability (\d+\.\d+\w?)",
        "This TensorFlow was built before GPUs with compute capability {0}: the driver compiles its kernels at the first use, which "
        "takes up to 30 minutes, once. Install a newer TensorFlow, or set CUDA_CACHE_MAXSIZE=4294967296 so that the result is kept.",
    ),
    (
        r"no kernel image is available for execution on the device|CUDA_ERROR_NO_BINARY_FOR_GPU|CUDA_ERROR_INVALID_PTX"
        r"|CUDA_ERROR_INVALID_SOURCE|CUDA_ERROR_NO_KERNEL_IMAGE",
        "This TensorFlow has no kernels for the architecture of the GPU, and the driver cannot compile them. Install a TensorFlow that "
        "was built for it; tensorpack-lite env --gpu lists the architectures of both.",
    ),
    (
        r"Loaded runtime CuDNN library: (\S+) but source was compiled with: (\d[\d.]*\d)",
        "The installed cuDNN is version {0}, but TensorFlow was built for {1}. Install cuDNN {1} or a newer one with the same "
        f"first number: {_PIP}.",
    ),
    (
        r"Could not load dynamic library '(lib\S+?)'",
        f"TensorFlow cannot load {{0}}, and does not use the GPU. Run {_PIP}, or add the folder of the "
        "library to LD_LIBRARY_PATH.",
    ),
    (
        r"Cannot dlopen some GPU libraries",
        f"TensorFlow does not find some of CUDA's libraries, and does not use the GPU. Run {_PIP}; tensorpack-lite env --gpu "
        "lists the libraries.",
    ),
    (
        r"failed to create cublas handle|CUBLAS_STATUS_ALLOC_FAILED|Could not create cudnn handle: CUDNN_STATUS_(?:ALLOC_FAILED"
        r"|INTERNAL_ERROR)|failed to allocate [\d.]+\w+ \(\d+ bytes\) from device: CUDA_ERROR_OUT_OF_MEMORY",
        "The GPU has no memory left for CUDA's libraries, usually because another process uses it: nvidia-smi lists the processes. "
        "End them, choose another GPU with CUDA_VISIBLE_DEVICES, or let TensorFlow take less "
        "(gpu_options.per_process_gpu_memory_fraction).",
    ),
    (
        r"DNN library is not found|No DNN in stream executor|Failed to get convolution algorithm"
        r"|Could not create cudnn handle(?!: CUDNN_STATUS_(?:ALLOC|INTERNAL))|CUDNN_STATUS_NOT_INITIALIZED",
        f"cuDNN, which computes convolutions, cannot be used. Run {_PIP}; if it is installed, TF_CPP_MIN_LOG_LEVEL=0 shows "
        "what TensorFlow's log says about it.",
    ),
    (
        r"Couldn't (?:invoke|get) ptxas|ptxas version|libdevice not found|libdevice\.10\.bc",
        "XLA does not find CUDA's compiler (ptxas and libdevice). Install nvidia-cuda-nvcc with pip and set "
        "XLA_FLAGS=--xla_gpu_cuda_data_dir=DIRECTORY, or leave out xla=True.",
    ),
    (
        r"NCCL: (unhandled [\w ]+error|internal error|invalid usage|remote process exited)",
        "NCCL, which adds the gradients of several GPUs, failed ({0}). Run once with NCCL_DEBUG=WARN for the reason, or use "
        "SyncMultiGPUTrainerReplicated(..., mode='gpu').",
    ),
)


class OutOfMemory(NamedTuple):
    """
    Contents of an error about memory that ran out.

    Attributes:
        device: "GPU 0", "CPU 0"; "" if it is unknown.
        num_bytes: the size of the allocation; None if it is unknown.
        tensor: the dtype and shape of the tensor, e.g. "float32 [256, 64]"; "" if it is unknown.
        operation: the name of the operation that allocated; "" if it is unknown.
        largest: the largest tensors in memory, (bytes, name of the operation), if TensorFlow lists them.
    """

    device: str
    num_bytes: int | None
    tensor: str
    operation: str
    largest: list[tuple[float, str]]


def find_out_of_memory(text: str) -> OutOfMemory | None:
    """Return what the text of an error says about memory that ran out; None if it is about something else."""
    node = _NODE.search(text)
    operation = "" if node is None else node.group(1)
    used = [(float(size) * _UNITS.get(unit, 1), name) for size, unit, name in _USED.findall(text)]
    largest = sorted(used, reverse=True)[:3]
    tensor = _TENSOR.search(text)
    if tensor is not None:
        shape, dtype, kind, number, _ = tensor.groups()
        sizes = [int(size) for size in shape.split(",") if size]
        num_bytes = _SIZES.get(dtype)
        for size in sizes:
            num_bytes = None if num_bytes is None else num_bytes * size
        return OutOfMemory(f"{kind} {number}", num_bytes, f"{_DTYPES.get(dtype, dtype)} {sizes}", operation, largest)
    size_only = _BYTES.search(text)
    if size_only is None or "CUDA_ERROR_OUT_OF_MEMORY" in text:  # which another process has caused
        return None
    num_bytes = int(next(group for group in size_only.groups() if group))
    ordinal = re.search(r"device(?: ordinal|:GPU:) ?(\d+)", text)
    return OutOfMemory(f"GPU {ordinal.group(1)}" if ordinal else "", num_bytes, "", operation, largest)


def explain_messages(text: str) -> list[str]:
    """
    Return sentences for TensorFlow's messages about missing libraries, drivers and unknown GPUs.

    Args:
        text: the text of an error, or lines of TensorFlow's log.

    Returns:
        One sentence for each cause, the most likely first; empty if the text has no such message.
    """
    return _sentences(_OF_DRIVER, text)[:1] or _sentences(_OTHERS, text)


def _sentences(messages: Sequence[Tuple[str, str]], text: str) -> list[str]:
    sentences = []
    for pattern, sentence in messages:
        matches = list(re.finditer(pattern, text))
        if matches:
            values = zip(*(match.groups() for match in matches))
            sentences.append(sentence.format(*(", ".join(dict.fromkeys(found)) for found in values)))
    return sentences
