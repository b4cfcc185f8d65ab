"""
What NVIDIA's management library (NVML) knows of the GPUs: number, names, memory, utilisation.

It comes with the driver and is loaded with ctypes, so there is nothing to install.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Iterator

from .argtools import memoized

__all__ = ["NVMLContext", "NvidiaDevice", "NvmlException"]

_NAME_BYTES = 96


class NvmlException(Exception):
    """NVML is not there, or one of its functions failed."""


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class NVMLContext:
    """
    NVML, initialised inside the context.

    Raises:
        NvmlException: (on entering) there is no NVIDIA driver, or it does not work.

    Example:
        >>> with NVMLContext() as nvml:  # doctest: +SKIP
        ...     [device.memory()["used"] for device in nvml.devices()]

    tensorpack: same; there the index of a device that does not exist is an AssertionError.
    """

    def __enter__(self) -> NVMLContext:
        self._library = _load_library()
        _call(self._library, "nvmlInit_v2")
        return self

    def __exit__(self, *exc_info: object) -> None:
        _call(self._library, "nvmlShutdown")

    def num_devices(self) -> int:
        """Number of GPUs of the machine, whatever `CUDA_VISIBLE_DEVICES` says."""
        count = ctypes.c_uint()
        _call(self._library, "nvmlDeviceGetCount_v2", ctypes.byref(count))
        return count.value

    def devices(self) -> Iterator[NvidiaDevice]:
        """All GPUs of the machine."""
        return (self.device(index) for index in range(self.num_devices()))

    def device(self, idx: int) -> NvidiaDevice:
        """
        One GPU.

        Args:
            idx: its number, as in nvidia-smi.

        Raises:
            ValueError: there is no such GPU.
        """
        num_devices = self.num_devices()
        if not 0 <= idx < num_devices:
            raise ValueError(f"NVMLContext: device must be in [0, {num_devices}), got {idx}.")
        handle = ctypes.c_void_p()
        _call(self._library, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(idx), ctypes.byref(handle))
        return NvidiaDevice(self._library, handle)


class NvidiaDevice:
    """
    One GPU; `NVMLContext` makes it, and it is good inside that context.

    Args:
        library: NVML.
        handle: the GPU's handle.
    """

    def __init__(self, library: Any, handle: ctypes.c_void_p) -> None:
        self._library = library
        self._handle = handle

    def memory(self) -> dict[str, int]:
        """Its memory in bytes: "total", "used", "free"."""
        memory = _Memory()
        _call(self._library, "nvmlDeviceGetMemoryInfo", self._handle, ctypes.byref(memory))
        return {"total": memory.total, "used": memory.used, "free": memory.free}

    def utilization(self) -> dict[str, int]:
        """Percent of the last sample period in which "gpu" computed, and in which "memory" was accessed."""
        utilization = _Utilization()
        _call(self._library, "nvmlDeviceGetUtilizationRates", self._handle, ctypes.byref(utilization))
        return {"gpu": utilization.gpu, "memory": utilization.memory}

    def name(self) -> str:
        """Its product name."""
        name = ctypes.create_string_buffer(_NAME_BYTES)
        _call(self._library, "nvmlDeviceGetName", self._handle, name, ctypes.c_uint(_NAME_BYTES))
        return name.value.decode()


@memoized
def _load_library() -> Any:
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise NvmlException(f"NVML: {name} cannot be loaded. Is there an NVIDIA driver? ({error})") from error


def _call(library: Any, function: str, *args: Any) -> None:
    code = getattr(library, function)(*args)
    if code == 0:
        return
    describe = library.nvmlErrorString
    describe.restype = ctypes.c_char_p
    raise NvmlException(f"NVML: {function} failed with code {code}: {describe(code).decode()}")
