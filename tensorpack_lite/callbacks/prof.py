"""Callbacks that measure the machine while it trains, and the steps it runs."""

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
from ..tfutils.common import gpu_available_in_session
from ..utils import logger
from ..utils.concurrency import StoppableThread
from ..utils.gpu import get_num_gpu
from ..utils.nvml import NVMLContext, NvmlException
from .directories import need_logger_dir

__all__ = [
    "GPUMemoryTracker",
    "GPUUtilizationTracker",
    "GraphProfiler",
    "HostMemoryTracker",
    "PeakMemoryTracker",
    "ThroughputTracker",
]

_SAMPLE_SECONDS = 1.0


class ThroughputTracker(Callback):
    """
    Report how fast training goes: `Throughput (samples/sec)`, or `Throughput (steps/sec)` if the samples are not known.

    Only the time of steps counts, from before_epoch to after_epoch, not that of triggers. Each trigger begins anew.

    Args:
        samples_per_step: how many samples a step takes, e.g. batch size times number of GPUs; None counts steps.

    Raises:
        ValueError: `samples_per_step` is not positive.

    Runs at: before_train, before_epoch, after_epoch, trigger. In every process of a distributed training.

    tensorpack: same.
    """

    _chief_only = False

    def __init__(self, samples_per_step: int | None = None) -> None:
        if samples_per_step is not None and samples_per_step < 1:
            raise ValueError(f"ThroughputTracker: samples_per_step is {samples_per_step}, wanted at least 1.")
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
            steps_per_sec = self._steps / self._seconds
            if self._samples_per_step is None:
                self.trainer.monitors.put_scalar("Throughput (steps/sec)", steps_per_sec)
            else:
                self.trainer.monitors.put_scalar(
                    "Throughput (samples/sec)", steps_per_sec * self._samples_per_step
                )
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
    Report the memory that is free on this machine, as `HostFreeMemory (GB)`.

    Runs at: setup_graph, trigger. In every process of a distributed training.

    tensorpack: same.
    """

    _chief_only = False

    def _setup_graph(self) -> None:
        logger.info("HostMemoryTracker: %.1f GB of memory are free while the graph is built.", _free_memory())

    def _trigger(self) -> None:
        self.trainer.monitors.put_scalar("HostFreeMemory (GB)", _free_memory())


class GPUMemoryTracker(Callback):
    """
    Report the most memory that TensorFlow's allocator of a GPU has given out so far, as `PeakMemory(MB)/gpu:<k>`.

    Args:
        devices: numbers of GPUs, as TensorFlow counts them in this process.

    Raises:
        ValueError: before training, the session has no such GPU.

    Runs at: setup_graph, before_train, trigger. In every process of a distributed training. Where the session has no GPU
    at all, it warns and reports nothing.

    tensorpack: same; there it reports nothing on TF 2, and measures along with the last step of an epoch.
    """

    _chief_only = False

    def __init__(self, devices: Sequence[int] = (0,)) -> None:
        self._devices = list(devices)
        self._is_enabled = False
        self._peaks: list[Any] = []

    def _setup_graph(self) -> None:
        # TensorFlow 1.15 measures with operations, which a session without GPUs refuses.
        if TF_VERSION < (2, 0) and tf.test.is_built_with_cuda() and get_num_gpu() > 0:
            for device in self._devices:
                with tf.device(f"/gpu:{device}"):
                    self._peaks.append(tensorflow.contrib.memory_stats.MaxBytesInUse())

    def _before_train(self) -> None:
        self._is_enabled = gpu_available_in_session()
        if not self._is_enabled:
            logger.warning("GPUMemoryTracker: the session has no GPU, so it reports nothing.")
            return
        names = [device.name.lower() for device in self.trainer.sess.list_devices()]
        for device in self._devices:
            if not any(name.endswith(f"device:gpu:{device}") for name in names):
                raise ValueError(
                    f"GPUMemoryTracker: the session has no GPU {device}; it has {', '.join(names)}."
                )

    def _trigger(self) -> None:
        if not self._is_enabled:
            return
        for device, num_bytes in zip(self._devices, self._read_peaks()):
            self.trainer.monitors.put_scalar(f"PeakMemory(MB)/gpu:{device}", float(num_bytes) / 1e6)

    def _read_peaks(self) -> list[Any]:
        if self._peaks:
            return self.trainer.sess.run(self._peaks)
        # The allocators are the process's, so this question, although not the session's, is about the same memory.
        return [tensorflow.config.experimental.get_memory_info(f"GPU:{d}")["peak"] for d in self._devices]


PeakMemoryTracker = GPUMemoryTracker


class GPUUtilizationTracker(Callback):
    """
    Report how busy GPUs are while steps run, in percent, as `GPUUtil/<number>`.

    A thread asks NVIDIA's management library once a second, from before_epoch to after_epoch; the mean since the last
    trigger is reported.

    Args:
        devices: numbers of GPUs, as in nvidia-smi. None means those of `CUDA_VISIBLE_DEVICES`, or all of the machine; where each
            of several local ranks has one, its own.

    Raises:
        RuntimeError: before training, there is no GPU or no driver to ask, or `CUDA_VISIBLE_DEVICES` names GPUs by
            something else than numbers; at the end of an epoch, the driver does not answer any more.
        ValueError: before training, a number that the machine does not have.

    Runs at: before_train, before_epoch, after_epoch, trigger, after_train. In every process of a distributed training.

    tensorpack: same; there it is a process that is always busy, and a machine without a GPU is an AssertionError.
    """

    _chief_only = False

    def __init__(self, devices: Sequence[int] | None = None) -> None:
        self._given = None if devices is None else list(devices)
        self._devices: list[int] = []
        self._sampler: _UtilizationSampler | None = None

    def _before_train(self) -> None:
        self._devices = _gpus_of(self.trainer) if self._given is None else self._given
        if not self._devices:
            raise RuntimeError("GPUUtilizationTracker: there is no GPU to watch. Leave this callback out.")
        try:
            with NVMLContext() as nvml:
                for device in self._devices:
                    nvml.device(device)
        except NvmlException as error:
            raise RuntimeError(
                f"GPUUtilizationTracker: cannot ask the GPUs: {error} Leave this callback out."
            ) from error
        self._samples = _Samples(self._devices)

    def _before_epoch(self) -> None:
        self._sampler = _UtilizationSampler(self._samples)
        self._sampler.start()

    def _after_epoch(self) -> None:
        error = self._stop_sampler()
        if error is not None:
            raise RuntimeError(f"GPUUtilizationTracker: the GPUs do not answer any more: {error}") from error

    def _trigger(self) -> None:
        for device, percent in zip(self._devices, self._samples.take_mean()):
            self.trainer.monitors.put_scalar(f"GPUUtil/{device}", percent)

    def _after_train(self) -> None:
        self._stop_sampler()

    def _stop_sampler(self) -> NvmlException | None:
        if self._sampler is None:
            return None
        self._sampler.stop()
        self._sampler.join()
        error, self._sampler = self._sampler.error, None
        return error


class GraphProfiler(Callback):
    """
    Trace runs of the session: how long each operation took, where, and with how much memory.

    Every run is traced, which makes it many times slower: put a `PeriodicCallback` around it. Files go to the logger's
    directory.

    Args:
        dump_metadata: write `runmetadata-<global_step>.pb`, a serialized `tf.RunMetadata`.
        dump_tracing: write `chrome-trace-<global_step>.json`, to be opened at chrome://tracing or ui.perfetto.dev.
        dump_event: hand an event to the monitors, for TensorBoard's graph page, with the tag `trace-<global_step>`.

    Raises:
        RuntimeError: before training, there is no logger directory for files.

    Runs at: before_train, every run.

    Example:
        >>> PeriodicCallback(GraphProfiler(), every_k_steps=500)

    Note: of GPUs it shows something only where CUPTI, NVIDIA's profiling library, is installed.

    tensorpack: same; there it fails on TF 2.
    """

    def __init__(
        self, dump_metadata: bool = False, dump_tracing: bool = True, dump_event: bool = False
    ) -> None:
        self._dump_metadata = dump_metadata
        self._dump_tracing = dump_tracing
        self._dump_event = dump_event
        self._directory = ""
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        self._args = tf.train.SessionRunArgs(None, options=options)

    def _before_train(self) -> None:
        if self._dump_metadata or self._dump_tracing:
            self._directory = need_logger_dir("GraphProfiler")

    def _before_run(self, ctx: Any) -> Any:
        return self._args

    def _after_run(self, ctx: Any, run_values: Any) -> None:
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


class _Samples:
    """What the sampling thread adds to and the main thread takes from."""

    def __init__(self, devices: Sequence[int]) -> None:
        self.devices = devices
        self._lock = threading.Lock()
        self._rows: list[list[int]] = []

    def add(self, nvml: NVMLContext) -> None:
        row = [nvml.device(device).utilization()["gpu"] for device in self.devices]
        with self._lock:
            self._rows.append(row)

    def take_mean(self) -> list[float]:
        """The mean for each device of what was added since the last time; an empty list if nothing was."""
        with self._lock:
            rows, self._rows = self._rows, []
        return np.mean(rows, axis=0).tolist() if rows else []


class _UtilizationSampler(StoppableThread):
    """Samples once a second, and when it is asked to stop: so a short epoch has a sample too."""

    def __init__(self, samples: _Samples) -> None:
        super().__init__()
        self.daemon = True
        self.name = "GPUUtilizationTracker"
        self.error: NvmlException | None = None
        self._samples = samples

    def run(self) -> None:
        try:
            with NVMLContext() as nvml:
                while not self._stop_evt.wait(_SAMPLE_SECONDS):
                    self._samples.add(nvml)
                self._samples.add(nvml)
        except NvmlException as error:
            self.error = error


def _gpus_of(trainer: Any) -> list[int]:
    """The numbers of the GPUs that a trainer of this process uses."""
    gpus = _visible_gpus()
    shared_by = getattr(trainer, "local_size", 1)
    return [gpus[trainer.local_rank]] if 1 < shared_by <= len(gpus) else gpus


def _visible_gpus() -> list[int]:
    """The numbers of the GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(range(get_num_gpu()))
    names = [name.strip() for name in visible.split(",")][: get_num_gpu()]
    if not all(name.isdigit() for name in names):
        raise RuntimeError(
            f"GPUUtilizationTracker: CUDA_VISIBLE_DEVICES={visible} names GPUs by something else than numbers. Pass "
            "devices=[...] with their numbers as in nvidia-smi."
        )
    return [int(name) for name in names]


def _free_memory() -> float:
    return psutil.virtual_memory().available / 2**30
