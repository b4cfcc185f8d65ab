"""Callbacks that measure throughput, memory, GPU utilization and single runs."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Sequence

import numpy as np
import psutil

from ..compat import TF_VERSION, tensorflow
from ..compat import tfv1 as tf
from ..compat.private import chrome_trace
from ..loop.callback import Callback
from ..loop.trainer import LoopTrainer
from ..tfutils.common import gpu_available_in_session
from ..utils import logger
from ..utils.checks import check_at_least
from ..utils.gpu import get_num_gpu, pretended_gpus
from ..utils.nvml import NVMLContext, NvmlException
from .directories import need_logger_dir

_SAMPLE_SECONDS = 1.0


class ThroughputTracker(Callback):
    """
    Callback that reports the training speed, as `Throughput (samples/sec)` or `Throughput (steps/sec)`.

    Only the time of steps counts, from before_epoch to after_epoch, not the time of triggers. Each trigger restarts the
    measurement.

    Args:
        samples_per_step: number of samples in a step, e.g. batch size times number of GPUs; None counts steps.

    Raises:
        ValueError: `samples_per_step` is not positive.

    Runs at: before_train, before_epoch, after_epoch, trigger. In every process of a distributed training.
    """

    _chief_only = False

    def __init__(self, samples_per_step: int | None = None) -> None:
        if samples_per_step is not None:
            check_at_least("ThroughputTracker: samples_per_step", samples_per_step, 1)
        self._samples_per_step = samples_per_step
        self._start_over()

    def _start_over(self) -> None:
        self._seconds = 0.0
        self._steps = 0
        self._epoch_start: tuple[float, int] | None = None

    def _before_train(self) -> None:
        self._start_over()

    def _before_epoch(self) -> None:
        self._epoch_start = (time.perf_counter(), self.global_step)

    def _after_epoch(self) -> None:
        self._count_until_now()
        self._epoch_start = None

    def _trigger(self) -> None:
        is_inside_epoch = self._epoch_start is not None
        self._count_until_now()
        if self._steps > 0 and self._seconds > 0:
            unit = "steps" if self._samples_per_step is None else "samples"
            rate = self._steps / self._seconds * (self._samples_per_step or 1)
            self.trainer.monitors.put_scalar(f"Throughput ({unit}/sec)", rate)
        self._start_over()
        if is_inside_epoch:
            self._before_epoch()

    def _count_until_now(self) -> None:
        if self._epoch_start is not None:
            start, first_step = self._epoch_start
            self._seconds += time.perf_counter() - start
            self._steps += self.global_step - first_step


class HostMemoryTracker(Callback):
    """
    Callback that reports the free memory of this machine, as `HostFreeMemory (GB)`.

    Runs at: setup_graph, trigger. In every process of a distributed training.
    """

    _chief_only = False

    def _setup_graph(self) -> None:
        logger.info("HostMemoryTracker: %.1f GB of memory are free.", _free_memory())

    def _trigger(self) -> None:
        self.trainer.monitors.put_scalar("HostFreeMemory (GB)", _free_memory())


class GPUMemoryTracker(Callback):
    """
    Callback that reports the peak memory of TensorFlow's allocator on each GPU so far, as `PeakMemory(MB)/gpu:<k>`.

    Args:
        devices: numbers of GPUs, as TensorFlow counts them in this process.

    Raises:
        ValueError: before training: the session does not have one of the GPUs.

    Runs at: setup_graph, before_train, trigger. In every process of a distributed training. If the session has no GPU,
    it logs a warning and reports nothing.
    """

    _chief_only = False

    def __init__(self, devices: Sequence[int] = (0,)) -> None:
        self._devices = list(devices)
        self._is_enabled = False
        self._peaks: list[Any] = []

    def _setup_graph(self) -> None:
        # TensorFlow 1.15 measures with operations that fail in a session without GPUs.
        if TF_VERSION < (2, 0) and tf.test.is_built_with_cuda() and get_num_gpu() > pretended_gpus():
            for device in self._devices:
                with tf.device(f"/gpu:{device}"):
                    self._peaks.append(tensorflow.contrib.memory_stats.MaxBytesInUse())

    def _before_train(self) -> None:
        self._is_enabled = gpu_available_in_session()
        if not self._is_enabled:
            logger.warning("GPUMemoryTracker: the session has no GPU, so nothing is reported.")
            return
        names = [device.name.lower() for device in self.trainer.sess.list_devices()]
        for device in self._devices:
            if not any(name.endswith(f"device:gpu:{device}") for name in names):
                raise ValueError(f"GPUMemoryTracker: the session has no GPU {device}; it has {', '.join(names)}.")

    def _trigger(self) -> None:
        if not self._is_enabled:
            return
        for device, num_bytes in zip(self._devices, self.read_peaks()):
            self.trainer.monitors.put_scalar(f"PeakMemory(MB)/gpu:{device}", float(num_bytes) / 1e6)

    def read_peaks(self) -> list[int]:
        """Return the peak memory of each GPU so far, in bytes. The trainer must have a session."""
        if self._peaks:
            return self.trainer.sess.run(self._peaks)
        # All sessions of a process share the allocators.
        return [tensorflow.config.experimental.get_memory_info(f"GPU:{d}")["peak"] for d in self._devices]


PeakMemoryTracker = GPUMemoryTracker


class GPUUtilizationTracker(Callback):
    """
    Callback that reports the utilization of GPUs while steps run, in percent, as `GPUUtil/<number>`.

    A thread samples NVIDIA's management library (NVML) once a second, from before_epoch to after_epoch. Each trigger
    reports the mean since the last one.

    Args:
        devices: numbers of GPUs, as in nvidia-smi. None means the GPUs in `CUDA_VISIBLE_DEVICES`, or all GPUs of the
            machine; a local rank that has one GPU uses only that one.

    Raises:
        RuntimeError: before training: there is no GPU or no driver, or `CUDA_VISIBLE_DEVICES` does not list numbers; at
            the end of an epoch: the driver has stopped responding.
        ValueError: before training: the machine does not have one of the GPUs.

    Runs at: before_train, before_epoch, after_epoch, trigger, after_train. In every process of a distributed training. Under
    `tensorpack-lite run --pretend-gpu`, it logs a warning and reports nothing.
    """

    _chief_only = False

    def __init__(self, devices: Sequence[int] | None = None) -> None:
        self._given = None if devices is None else list(devices)
        self._devices: list[int] = []
        self._samples: list[list[int]] = []
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: NvmlException | None = None

    def _before_train(self) -> None:
        if pretended_gpus():
            logger.warning("GPUUtilizationTracker: the GPUs are pretended, so nothing is reported.")
            return
        self._devices = _gpus_of(self.trainer) if self._given is None else self._given
        if not self._devices:
            raise RuntimeError("GPUUtilizationTracker: the machine has no GPU. Remove this callback.")
        try:
            with NVMLContext() as nvml:
                for device in self._devices:
                    nvml.device(device)
        except NvmlException as error:
            message = f"GPUUtilizationTracker: cannot query the GPUs: {error} Remove this callback."
            raise RuntimeError(message) from error
        self._samples, self._error = [], None

    def _before_epoch(self) -> None:
        if not self._devices:
            return
        self._is_over.clear()
        self._thread = threading.Thread(target=self._sample, name="GPUUtilizationTracker", daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        """Sample once a second, and once at the end, so that a short epoch also has a sample."""
        try:
            with NVMLContext() as nvml:
                is_last = False
                while not is_last:
                    is_last = self._is_over.wait(_SAMPLE_SECONDS)
                    self._samples.append([nvml.device(d).utilization()["gpu"] for d in self._devices])
        except NvmlException as error:
            self._error = error

    def _after_epoch(self) -> None:
        self._stop_sampling()
        if self._error is not None:
            message = f"GPUUtilizationTracker: the GPUs have stopped responding: {self._error}"
            raise RuntimeError(message) from self._error

    def _trigger(self) -> None:
        new = self._samples[:]  # the thread may append more
        del self._samples[: len(new)]
        for device, percents in zip(self._devices, zip(*new)):
            self.trainer.monitors.put_scalar(f"GPUUtil/{device}", float(np.mean(percents)))

    def _after_train(self) -> None:
        self._stop_sampling()

    def _stop_sampling(self) -> None:
        if self._thread is not None:
            self._is_over.set()
            self._thread.join()
            self._thread = None


class GraphProfiler(Callback):
    """
    Callback that traces runs of the session: time, device and memory of each operation.

    Tracing makes a run many times slower, so put a `PeriodicCallback` around this callback. Files are written
    to the logger's directory.

    Args:
        dump_metadata: write `runmetadata-<global_step>.pb`, a serialized `tf.RunMetadata`.
        dump_tracing: write `chrome-trace-<global_step>.json`, which chrome://tracing and ui.perfetto.dev open.
        dump_event: send an event with the tag `trace-<global_step>` to the monitors, for TensorBoard's graph page.

    Raises:
        RuntimeError: before training: files are to be written and there is no logger directory.

    Runs at: before_train, every run.

    Example:
        >>> PeriodicCallback(GraphProfiler(), every_k_steps=500)

    Note: tracing GPUs needs CUPTI, NVIDIA's profiling library.
    """

    def __init__(self, dump_metadata: bool = False, dump_tracing: bool = True, dump_event: bool = False) -> None:
        self._dump_metadata = dump_metadata
        self._dump_tracing = dump_tracing
        self._dump_event = dump_event
        self._directory = ""
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        self._args = tf.train.SessionRunArgs(None, options=options)

    def _before_train(self) -> None:
        if self._dump_metadata or self._dump_tracing:
            self._directory = need_logger_dir("GraphProfiler")

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        metadata = run_values.run_metadata
        if self._dump_metadata:
            with open(self._path("runmetadata", "pb"), "wb") as file:
                file.write(metadata.SerializeToString())
        if self._dump_tracing:
            with open(self._path("chrome-trace", "json"), "w", encoding="utf-8") as file:
                file.write(chrome_trace(metadata.step_stats))
        if self._dump_event:
            event = tf.Event()
            event.tagged_run_metadata.tag = f"trace-{self.global_step}"
            event.tagged_run_metadata.run_metadata = metadata.SerializeToString()
            self.trainer.monitors.put_event(event)

    def _path(self, name: str, suffix: str) -> str:
        return os.path.join(self._directory, f"{name}-{self.global_step}.{suffix}")


def _gpus_of(trainer: LoopTrainer) -> list[int]:
    """Return the numbers of the GPUs that a trainer of this process uses."""
    gpus = _visible_gpus()
    shared_by = trainer.local_size
    return [gpus[trainer.local_rank]] if 1 < shared_by <= len(gpus) else gpus


def _visible_gpus() -> list[int]:
    """Return the numbers of the GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(range(get_num_gpu()))
    names = [name.strip() for name in visible.split(",")][: get_num_gpu()]
    if not all(name.isdigit() for name in names):
        raise RuntimeError(
            f"GPUUtilizationTracker: CUDA_VISIBLE_DEVICES is not a list of numbers (got {visible}). Pass devices=[...] with "
            "the numbers of the GPUs in nvidia-smi."
        )
    return [int(name) for name in names]


def _free_memory() -> float:
    return psutil.virtual_memory().available / 2**30
