"""The report of `tensorpack-lite env --gpu`, on this machine and on pretended ones."""

from __future__ import annotations

import os

import pytest
from fakes.gpu_messages import read

from tensorpack_lite.cli.main import main
from tensorpack_lite.diagnostics.gpu import report
from tensorpack_lite.diagnostics.gpu.probe import probe
from tensorpack_lite.diagnostics.gpu.report import make_gpu_report
from tensorpack_lite.utils.gpu import count_gpus

BUILD = {
    "cuda_version": "12.5.1",
    "cudnn_version": "9",
    "cuda_compute_capabilities": ["sm_80", "compute_90"],
}
WORKING = {
    "tensorflow": "2.21.0",
    "has_cuda": True,
    "build": BUILD,
    "devices": [{"name": "/job:localhost/replica:0/task:0/device:GPU:0", "error": None, "seconds": 2.5}],
    "libraries": {"libcudnn": "/usr/lib/libcudnn.so.9"},
}


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A function that sets what nvidia-smi prints and what the probe finds."""

    def pretend(found, log="", gpus=1):
        rows = [f"{k}, NVIDIA H100 80GB HBM3, 9.0, 81559 MiB, 550.54.15" for k in range(gpus)]
        program = tmp_path / "nvidia-smi"
        program.write_text("#!/bin/sh\ncat <<END\n" + "\n".join(rows or ["No devices were found"]) + "\nEND\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(report, "_probe", lambda: (found, log))

    return pretend


@pytest.mark.slow
def test_this_machine(capsys):
    """The exit code says whether a GPU works. Without CUDA, the advice is a package."""
    status = main(["env", "--gpu"])
    output = capsys.readouterr().out
    has_gpu = bool(probe()["devices"])
    assert (0 if has_gpu else 1) == status
    assert "CUDA_VISIBLE_DEVICES" in output
    if not probe()["has_cuda"]:
        assert "built without CUDA" in output.splitlines()[-1]
    assert not count_gpus() or "GPU 0" in output


def test_a_working_gpu(machine):
    """A GPU that works has its name, the driver, the build, the libraries and the time of a computation."""
    machine(WORKING)
    text, works = make_gpu_report()
    rows = {line.split("  ")[0]: line.partition("  ")[2].strip() for line in text.splitlines()}
    assert works
    assert "NVIDIA H100 80GB HBM3, 81559 MiB, compute capability 9.0" == rows["GPU 0"]
    assert "550.54.15" == rows["driver"]
    assert "yes (CUDA 12.5.1, cuDNN 9)" == rows["built with CUDA"]
    assert "sm_80, compute_90" == rows["built for"]
    assert "/usr/lib/libcudnn.so.9" == rows["libcudnn"]
    assert "not loaded" == rows["libnccl"]
    assert "TensorFlow uses 1 GPU." == text.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        ("libcuda_2", 0, "The NVIDIA driver is not installed"),
        ("libraries_2", 1, "TensorFlow does not find some of CUDA's libraries"),
        ("driver_replaced", 0, "The NVIDIA driver was updated"),
        ("old_architecture", 1, "This TensorFlow does not use the GPU, because its compute capability 3.0"),
        (None, 1, "TensorFlow finds no GPU, and its log does not tell why."),
    ],
)
def test_no_gpu_works(machine, name, gpus, expected):
    """If TensorFlow uses no GPU, the advice is the sentence for its log."""
    machine({**WORKING, "devices": []}, "" if name is None else read(name), gpus)
    text, works = make_gpu_report()
    assert not works
    assert text.splitlines()[-1].startswith(expected)
    assert ("No devices were found" in text) == (gpus == 0)


def test_some_gpus_work(machine):
    """An error of the computation, or a GPU that CUDA_VISIBLE_DEVICES hides, is in the report, and has its sentence."""
    device = {**WORKING["devices"][0], "error": read("no_kernel").splitlines()[1]}
    machine({**WORKING, "devices": [device]})
    text, works = make_gpu_report()
    assert not works
    assert "CUDA_ERROR_INVALID_PTX" in text
    assert "TensorFlow uses 0 GPUs.\nThis TensorFlow has no kernels for the architecture" in text
    machine(WORKING, gpus=2)
    assert "nvidia-smi lists 2 GPUs, TensorFlow 1: see CUDA_VISIBLE_DEVICES." in make_gpu_report().text


def test_a_crash(monkeypatch, machine):
    """A TensorFlow that crashes leaves a report with its exit code."""
    machine(WORKING)
    monkeypatch.undo()
    monkeypatch.setattr(report, "_MODULE", "antigravity.missing")
    text, works = make_gpu_report()
    assert not works
    assert "The process with TensorFlow ended with exit code 1." == text.splitlines()[-1]
