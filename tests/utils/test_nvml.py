"""NVML, with a fake of NVIDIA's binding and with the real one where no driver is installed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tensorpack_lite.utils.nvml import NVMLContext, NvmlException


class FakeBinding:
    """The module `pynvml` on a machine with two GPUs."""

    class NVMLError(Exception):
        pass

    def __init__(self):
        self.calls = []
        self.error = None

    def nvmlInit(self):
        self.calls.append("nvmlInit")
        if self.error is not None:
            raise self.error

    def nvmlShutdown(self):
        self.calls.append("nvmlShutdown")

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return 1000 + index

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=8 << 30, free=5 << 30, used=3 << 30)

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=handle - 910, memory=40)

    def nvmlDeviceGetName(self, handle):
        return f"GPU {handle}"


@pytest.fixture
def binding(monkeypatch):
    binding = FakeBinding()
    monkeypatch.setitem(sys.modules, "pynvml", binding)
    return binding


class TestNVMLContext:
    def test_opens_and_closes(self, binding):
        """NVML is initialized on entering and shut down on leaving, also after an exception."""
        with pytest.raises(ZeroDivisionError), NVMLContext():
            raise ZeroDivisionError

        assert ["nvmlInit", "nvmlShutdown"] == binding.calls

    def test_devices(self, binding):
        """The context returns number, names, memory and utilization of the GPUs."""
        with NVMLContext() as context:
            devices = list(context.devices())

            assert 2 == context.num_devices()
            assert ["GPU 1000", "GPU 1001"] == [device.name() for device in devices]
            assert {"total": 8 << 30, "free": 5 << 30, "used": 3 << 30} == devices[0].memory()
            assert {"gpu": 91, "memory": 40} == devices[1].utilization()

    @pytest.mark.parametrize("index", [-1, 2])
    def test_unknown_device(self, binding, index):
        """A number without a GPU raises a ValueError that lists the valid numbers."""
        with NVMLContext() as context, pytest.raises(
            ValueError, match=rf"idx is out of range \(expected 0 to 1, got {index}\)"
        ):
            context.device(index)

    def test_failure(self, binding):
        """An error of NVML becomes an NvmlException with NVML's own description."""
        binding.error = binding.NVMLError("Driver Not Loaded")
        with pytest.raises(NvmlException, match="nvmlInit failed: Driver Not Loaded. Is the NVIDIA driver"):
            NVMLContext().__enter__()

    def test_without_the_package(self, monkeypatch):
        """Without nvidia-ml-py, an ImportError names the command that installs it."""
        monkeypatch.setitem(sys.modules, "pynvml", None)
        with pytest.raises(
            ImportError,
            match=r'^NVMLContext: needs nvidia-ml-py, .* Run: pip install "tensorpack_lite\[gpu\]"$',
        ):
            NVMLContext().__enter__()

    def test_without_a_driver(self, capfd):
        """With the real binding and no driver, an NvmlException is raised and nothing is printed."""
        pynvml = pytest.importorskip("pynvml")
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            with pytest.raises(NvmlException, match="nvmlInit failed: "):
                NVMLContext().__enter__()
            assert ("", "") == capfd.readouterr()
        else:
            pynvml.nvmlShutdown()
            pytest.skip("this machine has an NVIDIA driver")
