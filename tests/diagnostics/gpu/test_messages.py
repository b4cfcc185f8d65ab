"""
Sentences for TensorFlow's messages about GPUs, from the texts in tests/data/gpu_messages.

The first line of each text says whether it was recorded, and with which TensorFlow. Those about memory on a CPU were recorded;
the others have TensorFlow's formats, and were not recorded on a machine with a GPU.
"""

from __future__ import annotations

import pytest
from fakes.gpu_messages import FOLDER, read

from tensorpack_lite.diagnostics.gpu.messages import explain_messages, find_out_of_memory

SENTENCES = {
    "cudnn_missing": ["cuDNN, which computes convolutions, cannot be used."],
    "cudnn_version": ["The installed cuDNN is version 8.6.0, but TensorFlow was built for 8.9.4.", "cuDNN, which"],
    "driver_broken": ["The NVIDIA driver cannot be started (CUDA_ERROR_UNKNOWN)."],
    "driver_replaced": ["The NVIDIA driver was updated while it was loaded: the kernel module is version 535.104.5, the "
                        "library libcuda is version 550.54.15."],
    "driver_too_old": ["The NVIDIA driver is older than the CUDA with which TensorFlow was built."],
    "libcuda_1": ["The NVIDIA driver is not installed, because its library libcuda.so.1 is not found."],
    "libcuda_2": ["The NVIDIA driver is not installed, because its library libcuda.so.1 is not found."],
    "libraries_1": ["TensorFlow cannot load libcudart.so.10.0, libcudnn.so.7, and does not use the GPU.",
                    "TensorFlow does not find some of CUDA's libraries"],
    "libraries_2": ["TensorFlow does not find some of CUDA's libraries"],
    "memory_in_use": ["The GPU has no memory left for CUDA's libraries, usually because another process uses it"],
    "nccl": ["NCCL, which adds the gradients of several GPUs, failed (unhandled cuda error)."],
    "new_architecture": ["This TensorFlow was built before GPUs with compute capability 12.0:"],
    "no_device": ["The NVIDIA driver works, but this process sees no GPU."],
    "no_kernel": ["This TensorFlow has no kernels for the architecture of the GPU"],
    "no_kernel_image": ["This TensorFlow has no kernels for the architecture of the GPU"],
    "old_architecture": ["This TensorFlow does not use the GPU, because its compute capability 3.0 is below 3.5"],
    "ptxas": ["XLA does not find CUDA's compiler"],
}  # fmt: skip

# name -> device, bytes, tensor, operation
MEMORY = {
    "oom_gpu_1": ("GPU 0", 4 * 256 * 64 * 56 * 56, "float32 [256, 64, 56, 56]", "tower0/conv1/Conv2D"),
    "oom_gpu_2": (
        *("GPU 1", 2 * 128 * 256 * 56 * 56, "float16 [128, 256, 56, 56]"),
        "gradients/tower1/group0/block0/conv1/Conv2D_grad/Conv2DBackpropInput",
    ),
    "oom_xla": ("", 1 << 34, "", "cluster_0_1/xla_run"),
    **{
        f"oom_cpu_{end}{kind}": ("CPU 0", 1 << 42, "float32 [1048576, 1048576]", "tower0/images")
        for end in ("tf115", "tf215", "tf221")
        for kind in ("", "_listed")
    },
}


def test_all_recordings_are_listed():
    """Each text is tested here and names its source."""
    names = {path.stem for path in FOLDER.glob("*.txt")}
    assert names == {*SENTENCES, *MEMORY}
    assert all(read(name).startswith(("# Recorded with ", "# Written in the format of ")) for name in names)


@pytest.mark.parametrize("name", sorted(SENTENCES))
def test_sentences(name):
    """Each message has its sentence, with the numbers and names that the message has, and advice after it."""
    sentences = explain_messages(read(name))
    assert len(SENTENCES[name]) == len(sentences)
    for beginning, sentence in zip(SENTENCES[name], sentences):
        assert sentence.startswith(beginning)
        assert len(sentence) > len(beginning)
        assert "{" not in sentence
    assert find_out_of_memory(read(name)) is None


@pytest.mark.parametrize("name", sorted(MEMORY))
def test_memory(name):
    """An error about memory has a device, a size, a tensor and an operation, as far as TensorFlow tells them."""
    found = find_out_of_memory(read(name))
    assert MEMORY[name] == found[:4]
    assert [] == explain_messages(read(name))


def test_largest_tensors():
    """If TensorFlow lists the tensors in memory, the largest ones are known."""
    expected = [(1.53 * 2**30, "tower1/conv0/Conv2D"), (392 * 2**20, "tower1/group0/block0/conv1/Conv2D")]
    assert expected == find_out_of_memory(read("oom_gpu_2")).largest[:2]


@pytest.mark.parametrize(
    "text", ["", "Invalid argument: Nan in summary", "logits and labels must have the same first dimension"]
)
def test_other_errors(text):
    """Other errors have no sentence."""
    assert find_out_of_memory(text) is None
    assert [] == explain_messages(text)
