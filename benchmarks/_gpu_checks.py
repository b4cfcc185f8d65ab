"""Sections of gpu_proof.py that check results: they may run together, and load TensorFlow when they are called."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOLERANCE = 1e-5  # of the largest weight of a variable
LOGICAL_MB = 4096  # of each of two logical GPUs


# machine -----------------------------------------------------------------------------------------------------------------
def show_machine(section):
    """The GPU and driver, as nvidia-smi lists them; versions; and the report of `tensorpack-lite env --gpu`."""
    program = shutil.which("nvidia-smi")
    query = "--query-gpu=name,driver_version,memory.total,compute_cap,clocks.max.sm,power.limit"
    listed = output_of(program, query, "--format=csv,noheader") if program else "not on this machine"
    section.row("nvidia-smi", listed, section.has_gpu if program else None)
    section.row("Python, cores", f"{platform.python_version()}, {os.cpu_count()} cores")
    section.row("commit", output_of("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"))
    report = output_of(sys.executable, "-m", "tensorpack_lite", "env", "--gpu")
    for line in filter(str.strip, report.splitlines()):
        section.row("env --gpu", " ".join(line.split()))
    with contextlib.suppress(ImportError):
        import torch

        section.row("PyTorch", f"{torch.__version__}, CUDA {torch.version.cuda}")


def output_of(*command):
    """Return what a command prints, or that it cannot be started."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout.strip() or f"nothing; exit code {done.returncode}"


# tests -------------------------------------------------------------------------------------------------------------------
def run_tests(section):
    """The tests that are marked `gpu`, with two logical GPUs. Only the files that have some are collected."""
    files = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.gpu" in path.read_text("utf-8")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-W",
        "default",
        "-p",
        "no:cacheprovider",
        "-m",
        "gpu",
        *files,
    ]
    more = {"TENSORPACK_LITE_LOGICAL_GPUS": "2"} if section.has_gpu else {}
    log = Path(section.path).with_name("pytest")
    with open(log, "w", encoding="utf-8") as file, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **more},
            timeout=section.seconds_left() - 5,
        )
    text = log.read_text("utf-8", "replace")
    found = re.findall(r"^(\S+?::.*?) (PASSED|FAILED|SKIPPED|ERROR)", text, re.MULTILINE)
    counts = {word: sum(one == word for _, one in found) for word in ("PASSED", "FAILED", "ERROR", "SKIPPED")}
    summary = (text.strip().splitlines() or ["pytest printed nothing"])[-1].strip("= ")
    is_good = counts["PASSED"] > 0 and not counts["FAILED"] + counts["ERROR"]
    counted = ", ".join(f"{count} {word.lower()}" for word, count in counts.items())
    section.row("pytest -m gpu", f"{counted}; {summary}", is_good if section.has_gpu else None, **counts)
    for line in re.findall(r"^(?:FAILED|ERROR|SKIPPED) .*", text, re.MULTILINE):
        section.row("pytest", line[:300], None if line.startswith("SKIPPED") else False)


# equality ----------------------------------------------------------------------------------------------------------------
def compare_devices(section):
    """The weights after ten steps in float32 without TF32: one tower, two towers with half of the batch, and the CPU."""
    import numpy as np

    from tensorpack_lite.compat import TF_VERSION, ensure_graph_mode, tensorflow
    from tensorpack_lite.train import SimpleTrainer, SyncMultiGPUTrainerReplicated

    ensure_graph_mode()
    if TF_VERSION >= (2, 4):
        tensorflow.config.experimental.enable_tensor_float_32_execution(False)
    if section.has_gpu:
        os.environ["TENSORPACK_LITE_PRETEND_GPU"] = "2"
    towers = lambda: SyncMultiGPUTrainerReplicated([0, 1], mode="gpu")  # noqa: E731
    reference = train_small(SimpleTrainer, 16, {}, on_cpu=True)
    for name, trainer, batch in (("one tower", SimpleTrainer, 16), ("two towers", towers, 8)):
        trained = train_small(trainer, batch, reference.before)
        errors = {
            key: float(np.abs(trained.after[key] - value).max() / np.abs(value).max())
            for key, value in reference.after.items()
        }
        moved = max(float(np.abs(value - reference.before[key]).max()) for key, value in reference.after.items())
        worst = max(errors, key=errors.get)
        section.row(
            f"{name} on {trained.devices}, against {reference.devices}",
            f"largest difference {errors[worst]:.1e} ({worst}); the weights moved by {moved:.2f}",
            errors[worst] < TOLERANCE < moved,
            errors=errors,
        )
    if not section.has_gpu:
        section.row("GPU", "no GPU: both towers ran on the CPU")


def train_small(make_trainer, batch, initial, on_cpu=False):
    """Train a small convnet on the same 160 images. Return a callback with the weights before and after, and the devices."""
    import numpy as np

    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.dataflow import DataFromList
    from tensorpack_lite.input_source import QueueInput
    from tensorpack_lite.loop import Callback
    from tensorpack_lite.models import Conv2D, FullyConnected, MaxPooling
    from tensorpack_lite.tfutils.common import get_default_sess_config
    from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
    from tensorpack_lite.tfutils.sessinit import DictRestore

    def build(image, label):
        x = Conv2D("conv0", image, 16, 3, activation=tf.nn.relu)
        x = MaxPooling("pool0", Conv2D("conv1", x, 16, 3, activation=tf.nn.relu), 2)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=FullyConnected("fc", x, 10))
        return tf.reduce_mean(losses, name="cost")

    class Weights(Callback):
        def _before_train(self):
            kinds = {device.device_type for device in self.trainer.sess.list_devices()} - {
                "XLA_CPU",
                "XLA_GPU",
            }
            self.before, self.devices = self.read(), " and ".join(sorted(kinds))

        def _after_train(self):
            self.after = self.read()

        def read(self):
            variables = [v for v in tf.trainable_variables() if not v.op.name.startswith("tower")]
            return self.trainer.sess.run({variable.op.name: variable for variable in variables})

    weights = Weights()
    rng = np.random.RandomState(0)
    images, labels = rng.rand(160, 12, 12, 3).astype("float32"), rng.randint(10, size=160).astype("int32")
    batches = [[images[k : k + batch], labels[k : k + batch]] for k in range(0, 160, batch)]
    config = get_default_sess_config()
    if on_cpu:
        config.device_count["GPU"] = 0
    elif os.environ.get("TENSORPACK_LITE_PRETEND_GPU"):
        config.gpu_options.visible_device_list = "0"
        config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[LOGICAL_MB] * 2)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        trainer = make_trainer()
        signature = [
            tf.TensorSpec([batch, 12, 12, 3], tf.float32, "image"),
            tf.TensorSpec([batch], tf.int32, "label"),
        ]
        source = QueueInput(DataFromList(batches * 3, shuffle=False))
        trainer.setup_graph(signature, source, build, lambda: tf.train.MomentumOptimizer(0.1, 0.9))
        trainer.train_with_defaults(
            callbacks=[weights],
            extra_callbacks=[],
            monitors=[],
            session_creator=NewSessionCreator(config=config),
            session_init=DictRestore(initial),
            steps_per_epoch=10,
            max_epoch=1,
        )
    return weights


# exact -------------------------------------------------------------------------------------------------------------------
def resume_exactly(section):
    """A training that gets SIGTERM in its second epoch and is resumed, against one without interruption."""
    import numpy as np

    from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars

    directory = Path(section.path).parent
    whole, stopped = directory / "whole", directory / "stopped"
    codes = [train_exactly(whole), train_exactly(stopped, stop=True), train_exactly(stopped)]
    section.row("exit codes: whole, stopped, resumed", codes, codes == [0, 143, 0])
    first, second = (load_checkpoint_vars(str(path / "checkpoint")) for path in (whole, stopped))
    differing = [name for name in first if np.asarray(first[name]).tobytes() != np.asarray(second.get(name)).tobytes()]
    section.row(
        f"bytes of {len(first)} variables after resuming",
        f"differ in {', '.join(differing)}" if differing else "equal",
        not differing and set(first) == set(second),
    )


def train_exactly(directory, stop=False):
    """Train in another process. Return its exit code."""
    code = f"import _gpu_checks; _gpu_checks.exact_training({str(directory)!r}, {stop})"
    path = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode not in (0, 143):
        print(done.stdout, file=sys.stderr)
        raise RuntimeError(done.stdout.strip().splitlines()[-1])
    return done.returncode


def exact_training(directory, stop):
    """Train a convnet with BatchNorm and Dropout for three epochs of ten steps. If `stop`, send SIGTERM in step 15."""
    from tensorpack_lite.callbacks import ModelSaver
    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.dataflow import BatchData
    from tensorpack_lite.dataflow.dataset import Digits
    from tensorpack_lite.loop import Callback
    from tensorpack_lite.models import BNReLU, Conv2D, Dropout, FullyConnected, MaxPooling
    from tensorpack_lite.train import (
        AutoResumeTrainConfig,
        ModelDesc,
        SimpleTrainer,
        launch_train_with_config,
    )
    from tensorpack_lite.utils import fix_rng_seed, logger

    class Model(ModelDesc):
        def inputs(self):
            return [tf.TensorSpec([32, 8, 8], tf.float32, "image"), tf.TensorSpec([32], tf.int32, "label")]

        def build_graph(self, image, label):
            x = Conv2D("conv0", tf.expand_dims(image - 0.5, 3), 32, 3, activation=BNReLU)
            x = MaxPooling("pool", Conv2D("conv1", x, 32, 3, activation=BNReLU), 2)
            logits = FullyConnected("linear", Dropout(x, rate=0.3), 10)
            return tf.losses.sparse_softmax_cross_entropy(label, logits)

        def optimizer(self):
            return tf.train.AdamOptimizer(1e-3)

    class Stop(Callback):
        def _trigger_step(self):
            if stop and self.global_step == 15:
                os.kill(os.getpid(), signal.SIGTERM)

    ensure_graph_mode()
    logger.set_logger_dir(directory, action="k")
    fix_rng_seed(1)
    tf.set_random_seed(1)
    config = AutoResumeTrainConfig(
        model=Model(),
        dataflow=BatchData(Digits("train", size=8), 32),
        callbacks=[ModelSaver(), Stop()],
        monitors=[],
        exact="require",
        steps_per_epoch=10,
        max_epoch=3,
    )
    launch_train_with_config(config, SimpleTrainer())


# memory ------------------------------------------------------------------------------------------------------------------
def measure_memory(section):
    """The peak memory of a residual network with and without recomputation: on a GPU by its allocator, else by a trace."""
    shape = [4, 16, 16, 8] if section.small else [32, 128, 128, 64]
    peaks = {}
    for recompute in (True, False):  # the peak of a process never decreases
        peaks[recompute] = find_peak(shape, recompute, section.has_gpu)
        section.row(
            "peak memory, recomputed" if recompute else "peak memory, all activations kept",
            f"{peaks[recompute]:.1f} MB",
            megabytes=peaks[recompute],
        )
    section.row("ratio", f"{peaks[True] / peaks[False]:.2f}", peaks[True] < peaks[False] * 2 / 3)


def find_peak(shape, recompute, has_gpu):
    """Train 12 blocks for three steps, and return the peak memory in MB."""
    sys.path.insert(0, str(ROOT / "examples"))
    from recompute import PeakMemory

    from tensorpack_lite.callbacks import GPUMemoryTracker
    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.input_source import TensorInput
    from tensorpack_lite.models import BNReLU, Conv2D, Dropout
    from tensorpack_lite.tfutils.recompute import recompute_grad
    from tensorpack_lite.train import SimpleTrainer

    def block(x):
        y = Conv2D("conv0", x, shape[-1], 3, activation=BNReLU)
        return x + Dropout(Conv2D("conv1", y, shape[-1], 3, activation=BNReLU), rate=0.1)

    def build(image):
        for k in range(12):
            with tf.variable_scope(f"block{k}"):
                image = (recompute_grad(block) if recompute else block)(image)
        return tf.reduce_mean(image**2, name="cost")

    ensure_graph_mode()
    with tf.Graph().as_default():
        trainer = SimpleTrainer()
        signature = [tf.TensorSpec(shape, tf.float32, "image")]
        source = TensorInput(lambda: [tf.random_uniform(shape)])
        trainer.setup_graph(signature, source, build, lambda: tf.train.GradientDescentOptimizer(0.01))
        tracker = GPUMemoryTracker([0]) if has_gpu else PeakMemory()
        trainer.train_with_defaults(
            callbacks=[tracker], extra_callbacks=[], monitors=[], steps_per_epoch=3, max_epoch=1
        )
        return trainer.monitors.get_latest("PeakMemory(MB)/gpu:0" if has_gpu else "peak_memory")


# out of memory -----------------------------------------------------------------------------------------------------------
def run_out_of_memory(section):
    """A step that needs 2 TiB. The error must be our sentence, and name the GPU."""
    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.dataflow import FakeData
    from tensorpack_lite.models import FullyConnected
    from tensorpack_lite.train import ModelDesc, SimpleTrainer, TrainConfig, launch_train_with_config
    from tensorpack_lite.utils import logger

    class Hungry(ModelDesc):
        def inputs(self):
            return [tf.TensorSpec([1, 3], tf.float32, "x")]

        def build_graph(self, x):
            large = tf.fill(tf.cast(tf.reduce_sum(x) * 0 + [1 << 20, 1 << 19], tf.int32), 1.0, name="large")
            return tf.reduce_mean(FullyConnected("fc", x, 2)) * tf.reduce_mean(large)

        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.1)

    ensure_graph_mode()
    logger.set_logger_dir(str(Path(section.path).parent / "out_of_memory"), "d")
    config = TrainConfig(
        model=Hungry(), dataflow=FakeData([[1, 3]], random=False), steps_per_epoch=1, max_epoch=1, monitors=[]
    )
    try:
        launch_train_with_config(config, SimpleTrainer())
    except tf.errors.ResourceExhaustedError as error:
        text = error.message
    else:
        text = "no error"
    where = "GPU 0" if section.has_gpu else r"CPU( \d+)?"
    passed = bool(re.search(rf"ran out of memory on {where} in 'large.*needs 2 TiB", text)) and "\n" not in text
    section.row("a step that needs 2 TiB", text, passed)
