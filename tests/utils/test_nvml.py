"""NVML, against a library that the test makes up."""

from __future__ import annotations

import ctypes
from unittest import mock

import pytest

from tensorpack_lite.utils import nvml
from tensorpack_lite.utils.nvml import NVMLContext, NvmlException


class FakeLibrary:
    """Two GPUs, with the calling conventions of libnvidia-ml."""

    def __init__(self):
        self.calls = []
        self.codes = {}
        self.nvmlErrorString = mock.Mock(return_value=b"Driver Not Loaded")

    def __getattr__(self, name):
        def function(*args):
            self.calls.append(name)
            getattr(self, "_" + name, lambda *args: None)(*args)
            return self.codes.get(name, 0)

        if name.startswith("nvml"):
            return function
        raise AttributeError(name)

    def _nvmlDeviceGetCount_v2(self, count):
        count._obj.value = 2

    def _nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        handle._obj.value = 1000 + index.value

    def _nvmlDeviceGetMemoryInfo(self, handle, memory):
        memory._obj.total, memory._obj.free, memory._obj.used = 8 << 30, 5 << 30, 3 << 30

    def _nvmlDeviceGetUtilizationRates(self, handle, utilization):
        utilization._obj.gpu, utilization._obj.memory = 90 + handle.value - 1000, 40

    def _nvmlDeviceGetName(self, handle, name, length):
        assert length.value == ctypes.sizeof(name)
        name.value = b"GPU %d" % handle.value


@pytest.fixture
def library(monkeypatch):
    library = FakeLibrary()
    monkeypatch.setattr(nvml, "_load_library", lambda: library)
    return library


class TestNVMLContext:
    def test_opens_and_closes(self, library):
        """The library is initialised on entering, and let go on leaving, also after an exception."""
        with pytest.raises(ZeroDivisionError), NVMLContext():
            raise ZeroDivisionError

        assert ["nvmlInit_v2", "nvmlShutdown"] == library.calls

    def test_devices(self, library):
        """Number, names, memory and utilisation of two GPUs."""
        with NVMLContext() as context:
            devices = list(context.devices())

            assert 2 == context.num_devices()
            assert ["GPU 1000", "GPU 1001"] == [device.name() for device in devices]
            assert {"total": 8 << 30, "free": 5 << 30, "used": 3 << 30} == devices[0].memory()
            assert {"gpu": 91, "memory": 40} == devices[1].utilization()

    @pytest.mark.parametrize("index", [-1, 2])
    def test_no_such_device(self, library, index):
        """The error says which there are."""
        with NVMLContext() as context, pytest.raises(ValueError, match=rf"must be in \[0, 2\), got {index}"):
            context.device(index)

    def test_failure(self, library):
        """NVML's own description is in the error."""
        library.codes["nvmlInit_v2"] = 9
        with pytest.raises(
            NvmlException, match="nvmlInit_v2 failed with code 9: Driver Not Loaded"
        ), NVMLContext():
            pass

    @pytest.mark.parametrize(("platform", "name"), [("linux", "libnvidia-ml.so.1"), ("win32", "nvml.dll")])
    def test_no_driver(self, monkeypatch, capsys, platform, name):
        """Without the library: an exception that names it, and not a word in the log."""
        nvml._load_library.cache_clear()
        monkeypatch.setattr(nvml.sys, "platform", platform)
        monkeypatch.setattr(nvml.ctypes, "CDLL", mock.Mock(side_effect=OSError("not found")))
        with pytest.raises(
            NvmlException, match=f"{name} cannot be loaded. Is there an NVIDIA driver"
        ), NVMLContext():
            pass

        assert "" == capsys.readouterr().out
