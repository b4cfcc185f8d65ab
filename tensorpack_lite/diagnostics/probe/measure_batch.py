"""The answer to `tensorpack-lite find-batch`: a few steps with a larger batch."""

from __future__ import annotations

import json
import statistics
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, NoReturn, Sequence

import psutil

from ...callbacks.prof import GPUMemoryTracker
from ...compat import tfv1 as tf
from ...dataflow.base import length_or_none
from ...dataflow.batch import find_batch_size, find_batch_stages
from ...loop.callback import Callback
from ...loop.extension import ExtendedTrainer, Extension
from ...tfutils.sessinit import JustCurrentSession
from ...utils.gpu import get_num_gpu
from ...utils.memory import peak_memory
from ..gpu.messages import find_out_of_memory
from ..lint.training import ExaminedTraining, find_dataflow
from .request import end_probe

_NUM_WARM_UP = 3  # steps, in which TensorFlow chooses its kernels


class MeasureBatch(Extension):
    """
    Extension that multiplies the batch of the input, measures steps, and ends the process.

    The size of the last BatchData of the pipeline is changed before the data is reset, and so before its worker processes start.

    Args:
        options: `results`, the file to write; `factor`, by which the batch is multiplied; `num_steps`, the steps to measure.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._results: dict[str, Any] = {}
        self._tracker: GPUMemoryTracker | None = None

    @contextmanager
    def around_training(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """
        Write the results after the steps, even if memory runs out.

        Raises:
            SystemExit: after the steps, and if memory has run out.
        """
        try:
            yield
        except SystemExit:
            if not self._results:
                raise
        except (tf.errors.OpError, MemoryError) as error:
            if not _is_about_memory(error):
                raise
            self._results["is_too_large"] = True
        self._end()

    def _end(self) -> NoReturn:
        with open(self._options["results"], "w", encoding="utf-8") as file:
            json.dump(self._results, file)
        end_probe(0)

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """
        Change the batch, and register the callback that measures steps.

        Raises:
            ValueError: the input has no BatchData, or the model has a fixed batch.
            SystemExit: the data has too few samples.
        """
        training = ExaminedTraining(trainer, JustCurrentSession())
        factor = self._options["factor"]
        if factor > 1:
            _check_signature(training.signature)
        flow = find_dataflow(training.sources[0]) if training.sources else None
        stages = list(find_batch_stages(flow))
        if not stages:
            raise ValueError(
                "find-batch: the input has no BatchData whose size could be changed (expected a DataFlow with BatchData in this "
                "process). Change the batch in the script instead, and compare what it logs."
            )
        batch = stages[0]
        batch.batch_size *= factor
        batch.remainder = False  # a smaller batch would be faster
        self._results["batch"] = find_batch_size(flow)
        length = length_or_none(batch.ds)
        if length is not None and length < batch.batch_size:
            self._results["has_too_few"] = True
            self._end()
        if tf.test.is_built_with_cuda() and get_num_gpu():
            self._tracker = GPUMemoryTracker()
            trainer.register_callback(self._tracker)
        trainer.register_callback(_Measure(self._options["num_steps"], self._results, self._peak))

    def after_initialize(self, trainer: ExtendedTrainer) -> None:
        """Measure the memory before the first step: that of TensorFlow on the first GPU, or else that of the process."""
        if not any("GPU" in device.device_type for device in trainer.sess.list_devices()):
            self._tracker = None
        self._results["is_on_gpu"] = self._tracker is not None
        process = psutil.Process().memory_info()
        self._results["memory_before"] = process.rss if self._tracker is None else self._peak()

    def _peak(self) -> int:
        return peak_memory() if self._tracker is None else int(self._tracker.read_peaks()[0])


class _Measure(Callback):
    """
    Callback that measures steps after the first one, and ends the training.

    Runs at: trigger_step.
    """

    _chief_only = False

    def __init__(self, num_steps: int, results: dict[str, Any], peak: Callable[[], int]) -> None:
        self._num_steps, self._results, self._peak = num_steps, results, peak

    def _trigger_step(self) -> None:
        seconds = []
        for _ in range(_NUM_WARM_UP + self._num_steps):
            begin = time.perf_counter()
            self.trainer.run_step()
            seconds.append(time.perf_counter() - begin)
        self._results.update(step=statistics.median(seconds[_NUM_WARM_UP:]), memory=self._peak())
        # so the training is interrupted, not finished: callbacks do nothing that belongs to its end
        end_probe(0)


def _check_signature(signature: Sequence[tf.TensorSpec]) -> None:
    for spec in signature:
        if spec.shape.rank and spec.shape[:1].as_list() != [None]:
            raise ValueError(
                f"find-batch: the input '{spec.name}' of the model has a fixed batch (expected None as its first dimension, got "
                f"{spec.shape.as_list()[0]}). Write None in inputs()."
            )


def _is_about_memory(error: BaseException) -> bool:
    """Return whether memory has run out. TensorFlow's text may be in the cause of an explained error."""
    if isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError)):
        return True
    return any(find_out_of_memory(str(cause)) is not None for cause in (error, error.__cause__) if cause)
