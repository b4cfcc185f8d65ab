"""
GPU names, memory and utilization as reported by NVIDIA's management library (NVML).

It needs NVIDIA's Python binding: `pip install "tensorpack_lite[gpu]"`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Iterator

from .checks import check_between
from .optional import load_optional

__all__ = ["NVMLContext", "NvmlException"]


class NvmlException(Exception):
    """NVML cannot be loaded, or one of its functions failed."""


class NVMLContext:
    """
    Context in which NVML is initialized.

    Raises:
        ImportError: (on entering) the package `nvidia-ml-py` is not installed.
        NvmlException: (on entering) the NVIDIA driver is missing or does not work.

    Example:
        >>> with NVMLContext() as nvml:  # doctest: +SKIP
        ...     [device.memory()["used"] for device in nvml.devices()]
    """

    def __enter__(self) -> NVMLContext:
        self._library = load_optional("pynvml", type(self).__name__)
        _call(self._library, "nvmlInit")
        return self

    def __exit__(self, *exc_info: object) -> None:
        _call(self._library, "nvmlShutdown")

    def num_devices(self) -> int:
        """Return the number of GPUs of the machine, whatever `CUDA_VISIBLE_DEVICES` says."""
        return _call(self._library, "nvmlDeviceGetCount")

    def devices(self) -> Iterator[NvidiaDevice]:
        """Return an iterator over all GPUs of the machine."""
        return (self.device(index) for index in range(self.num_devices()))

    def device(self, idx: int) -> NvidiaDevice:
        """
        Return one GPU.

        Args:
            idx: the number of the GPU, as in nvidia-smi.

        Raises:
            ValueError: the machine has no GPU with this number.
        """
        check_between("NVMLContext.device: idx", idx, 0, self.num_devices() - 1)
        return NvidiaDevice(self._library, _call(self._library, "nvmlDeviceGetHandleByIndex", idx))


class NvidiaDevice:
    """
    One GPU. `NVMLContext` creates it, and it is valid inside that context.

    Args:
        library: the module `pynvml`.
        handle: the GPU's handle.
    """

    def __init__(self, library: ModuleType, handle: object) -> None:
        self._library = library
        self._handle = handle

    def memory(self) -> dict[str, int]:
        """Return the GPU's memory in bytes: "total", "used", "free"."""
        memory = _call(self._library, "nvmlDeviceGetMemoryInfo", self._handle)
        return {"total": memory.total, "used": memory.used, "free": memory.free}

    def utilization(self) -> dict[str, int]:
        """Return the percentage of the last sample period in which the "gpu" and its "memory" were busy."""
        utilization = _call(self._library, "nvmlDeviceGetUtilizationRates", self._handle)
        return {"gpu": utilization.gpu, "memory": utilization.memory}

    def name(self) -> str:
        """Return the product name."""
        return _call(self._library, "nvmlDeviceGetName", self._handle)


def _call(library: ModuleType, function: str, *args: object) -> Any:
    try:
        return getattr(library, function)(*args)
    except library.NVMLError as error:
        raise NvmlException(f"NVML: {function} failed: {error}. Is the NVIDIA driver installed?") from error
