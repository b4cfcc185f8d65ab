"""Callbacks that measure the machine while it trains."""

from __future__ import annotations

import time

import psutil

from ..loop.callback import Callback
from ..utils import logger

__all__ = ["HostMemoryTracker", "ThroughputTracker"]


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


def _free_memory() -> float:
    return psutil.virtual_memory().available / 2**30
