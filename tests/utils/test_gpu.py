"""Counting GPUs, on simulated machines."""

from __future__ import annotations

import os
import subprocess
from unittest import mock

import pytest

from tensorpack_lite.utils import gpu
from tensorpack_lite.utils.gpu import change_gpu, get_nr_gpu, get_num_gpu
from tensorpack_lite.utils.nvml import NvmlException

LISTING = b"""GPU 0: NVIDIA A100 (UUID: GPU-1)
  MIG 1g.5gb Device 0: (UUID: MIG-1)
  MIG 1g.5gb Device 1: (UUID: MIG-2)
GPU 1: NVIDIA A100 (UUID: GPU-2)
"""


@pytest.fixture
def machine(monkeypatch):
    """Function that sets the number of GPUs in NVML (None: NVML fails) and the output of nvidia-smi (None: not installed)."""

    def make(nvml=None, listing=None, returncode=0, error=NvmlException):
        context = mock.MagicMock()
        context.return_value.__enter__.return_value.num_devices.return_value = nvml
        if nvml is None:
            context.return_value.__enter__.side_effect = error("no driver")
        monkeypatch.setattr(gpu, "NVMLContext", context)
        monkeypatch.setattr(gpu.shutil, "which", lambda name: None if listing is None else "/usr/bin/" + name)
        answer = mock.Mock(stdout=listing, returncode=returncode)
        monkeypatch.setattr(subprocess, "run", mock.Mock(return_value=answer))

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpu._count_by_nvidia_smi.cache_clear()
    make()
    yield make
    gpu._count_by_nvidia_smi.cache_clear()


class TestGetNumGpu:
    def test_without_a_driver(self, machine, capsys):
        """A machine without a driver has no GPUs, and nothing is logged."""
        assert 0 == get_num_gpu()
        assert "" == capsys.readouterr().out

    def test_by_nvml(self, machine):
        """NVML is asked first."""
        machine(nvml=4, listing=LISTING)

        assert 4 == get_num_gpu()

    @pytest.mark.parametrize("error", [NvmlException, ImportError])
    def test_by_nvidia_smi(self, machine, error):
        """Where NVML fails or nvidia-ml-py is not installed, nvidia-smi is asked once; its MIG slices do not count."""
        machine(listing=LISTING, error=error)

        assert [2, 2] == [get_num_gpu(), get_num_gpu()]
        assert 1 == subprocess.run.call_count

    def test_nvidia_smi_fails(self, machine):
        """If nvidia-smi fails, the number is 0."""
        machine(listing=b"GPU access failed", returncode=9)

        assert 0 == get_num_gpu()

    @pytest.mark.parametrize("error", [OSError("broken"), subprocess.TimeoutExpired("nvidia-smi", 20)])
    def test_nvidia_smi_cannot_run(self, machine, monkeypatch, error):
        """If nvidia-smi hangs or cannot be started, the number is 0."""
        machine(listing=b"")
        monkeypatch.setattr(subprocess, "run", mock.Mock(side_effect=error))

        assert 0 == get_num_gpu()

    @pytest.mark.parametrize(
        ("visible", "count"),
        [
            ("", 0),
            ("-1", 0),
            ("0", 1),
            ("0,1", 2),
            (" 3 , 2 ", 2),
            ("1,-1,0", 1),
            ("GPU-1,GPU-2", 2),
            ("0,", 1),
        ],
    )
    @pytest.mark.parametrize("nvml", [None, 4])
    def test_by_variable(self, machine, monkeypatch, nvml, visible, count):
        """`CUDA_VISIBLE_DEVICES` is parsed as CUDA parses it, with and without NVML."""
        machine(nvml=nvml)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

        assert count == get_num_gpu()

    def test_more_than_exist(self, machine, monkeypatch):
        """A variable that names more GPUs than exist raises a ValueError."""
        machine(nvml=1)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        with pytest.raises(
            ValueError, match=r"CUDA_VISIBLE_DEVICES=0,1 names too many GPUs \(expected at most 1, got 2\)"
        ):
            get_num_gpu()

    def test_slices_may_be_more(self, machine, monkeypatch):
        """MIG slices have ids instead of numbers, and may outnumber the GPUs."""
        machine(nvml=1)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1,MIG-2")

        assert 2 == get_num_gpu()

    def test_old_name(self):
        """`get_nr_gpu` is the same function."""
        assert get_nr_gpu is get_num_gpu


class TestChangeGpu:
    @pytest.mark.parametrize(("val", "visible"), [(0, "0"), ("0,1", "0,1"), (-1, ""), ("-1", ""), (None, "5")])
    def test_sets_the_variable(self, monkeypatch, val, visible):
        """-1 hides all GPUs and None changes nothing. Leaving the context restores the variable."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
        with change_gpu(val):
            assert visible == os.environ["CUDA_VISIBLE_DEVICES"]
        assert "5" == os.environ["CUDA_VISIBLE_DEVICES"]

    def test_none_leaves_it_unset(self, monkeypatch):
        """None does not set an unset variable."""
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        with change_gpu(None):
            assert "CUDA_VISIBLE_DEVICES" not in os.environ
