"""The extension that explains errors about GPUs: a memory error of a real step, and recorded texts."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from fakes.gpu_messages import read
from fakes.trainers import launch

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import FakeData
from tensorpack_lite.diagnostics.gpu import errors
from tensorpack_lite.diagnostics.gpu.errors import GPUErrors, explain_error
from tensorpack_lite.input_source import QueueInput
from tensorpack_lite.models import FullyConnected
from tensorpack_lite.tfutils.precision import precision_scope
from tensorpack_lite.train import (
    ModelDesc,
    SimpleTrainer,
    SyncMultiGPUTrainerReplicated,
)
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.notes import read_notes


class Hungry(ModelDesc):
    """Its second tower allocates 4 TiB in the second step."""

    def inputs(self):
        return [TensorSpec([2, 3], tf.float32, "x")]

    def build_graph(self, x):
        y = FullyConnected("fc", x, 2)
        is_second = tf.get_default_graph().get_name_scope().startswith("tower1")
        step = tf.train.get_or_create_global_step()
        size = tf.where(tf.logical_and(step > 0, is_second), 1 << 20, 1)
        large = tf.fill(tf.stack([size, size]), 1.0, name="large")
        return tf.reduce_mean(y) * tf.reduce_mean(large)

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


@pytest.mark.slow
def test_a_step_without_memory(tmp_path):
    """The error has the type of TensorFlow's, names tower, operation, line and size, and has the whole text in a file."""
    logger.set_logger_dir(str(tmp_path), "d")
    data = QueueInput(FakeData([[2, 3]], random=False))
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        launch(SyncMultiGPUTrainerReplicated([0, 1]), model=Hungry(), data=data, steps_per_epoch=3, monitors=[])
    text = caught.value.message
    logger.reset()
    assert re.match(r"Tower 'tower1' ran out of memory on CPU \d in 'tower1/large' \(\S*test_errors.py:\d+\), which needs 4 TiB for",
                    text)  # fmt: skip
    assert "Use a smaller batch" in text
    assert isinstance(caught.value.__cause__, tf.errors.ResourceExhaustedError)
    (file,) = tmp_path.glob("gpu-error-*.txt")
    assert text.endswith(f"TensorFlow's report: {file}")
    assert "OOM when allocating tensor" in file.read_text()
    assert [text] == [note["text"] for note in read_notes(str(tmp_path)) if note["kind"] == "gpu"]


def explain(name, kind=tf.errors.ResourceExhaustedError, towers=("tower0", "tower1")):
    trainer = SimpleTrainer()
    found = [SimpleNamespace(ns_name=tower) for tower in towers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "training_towers", lambda _: found)
        return explain_error(kind(None, None, read(name)), trainer)


def test_a_gradient_on_a_gpu():
    """The tower of a gradient is known; the largest tensors are named; the advice is about GPUs."""
    assert (
        "Tower 'tower1' ran out of memory on GPU 1 in 'gradients/tower1/group0/block0/conv1/Conv2D_grad/Conv2DBackpropInput', "
        "which needs 196 MiB for a tensor float16 [128, 256, 56, 56]; the largest tensors in memory are 1.53 GiB of "
        "'tower1/conv0/Conv2D', 392 MiB of 'tower1/group0/block0/conv1/Conv2D', 98 MiB of 'tower1/pool0/MaxPool'. Use a smaller "
        'batch, or TrainConfig(precision="mixed_bfloat16"), or recompute_grad around parts of the model (docs/gpu.md). If '
        "nvidia-smi lists other processes on this GPU, they take memory, too."
    ) == explain("oom_gpu_2")


def test_other_places():
    """Without a tower and a device, the sentence says what is known; a model in mixed precision gets no advice to use it."""
    beginning = "The model ran out of memory in 'cluster_0_1/xla_run', which needs 16 GiB. Use"
    assert explain("oom_xla").startswith(beginning)
    with precision_scope("mixed_float16"):
        tf.no_op()
    assert "precision" not in explain("oom_gpu_1")


@pytest.mark.parametrize("name", ["no_kernel", "cudnn_missing", "driver_too_old", "nccl", "ptxas"])
def test_other_messages(name):
    """Other errors about GPUs have one sentence."""
    assert "\n" not in explain(name, tf.errors.InternalError)


def test_other_errors(tmp_path):
    """Errors about something else are raised as they are, and write nothing."""
    logger.set_logger_dir(str(tmp_path), "d")
    error = tf.errors.InvalidArgumentError(None, None, "Nan in summary histogram")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        with GPUErrors().around_training(SimpleTrainer()):
            raise error
    assert error is caught.value
    assert [] == list(tmp_path.glob("gpu-error-*"))
    logger.reset()


def test_without_a_directory():
    """Without a logger directory, the sentence is all there is."""
    error = tf.errors.ResourceExhaustedError(None, None, read("oom_gpu_1"))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="Tower 'tower0' ran|The model ran") as caught:
        with GPUErrors().around_training(SimpleTrainer()):
            raise error
    assert "report" not in caught.value.message


@pytest.mark.parametrize("uses_gpu", [False, True])
def test_a_gpu_that_is_not_used(monkeypatch, uses_gpu):
    """A training on the CPU of a machine with GPUs logs a warning that names the command."""
    messages = []
    monkeypatch.setattr(errors.logger, "warning", messages.append)
    monkeypatch.setattr(errors, "count_gpus", lambda: 2)
    monkeypatch.setattr(errors, "get_num_gpu", lambda: 2)
    devices = [SimpleNamespace(device_type="CPU"), SimpleNamespace(device_type="GPU")][: 1 + uses_gpu]
    trainer = SimpleNamespace(sess=SimpleNamespace(list_devices=lambda: devices))
    GPUErrors().after_initialize(trainer)
    assert uses_gpu != ("TensorFlow uses none of the 2 GPUs" in "".join(messages))
