"""Callback that keeps the batches of steps whose loss is far above the usual."""

from __future__ import annotations

import os
from collections import deque
from typing import Deque, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...loop.callback import Callback
from ...utils import logger
from ...utils.checks import check_at_least
from ...utils.notes import write_note
from .autopsy_files import describe_sample, write_batches
from .batch_capture import BatchCapture, TowerBatch

_NUM_REMEMBERED = 1000
_NUM_NEEDED = 100
_QUANTILE = 99.9
_STEPS_BETWEEN = 50  # two computations of the limit


class LossSpike(Callback):
    """
    Callback that writes the batch of each step whose loss is far above the usual, without ending training.

    A loss is a spike if it is above `factor` times the 99.9 % quantile of the last 1,000 losses. `spike-<step>/` in
    the logger's directory gets `batch.npz` and `report.txt`, and the log gets a line with the numbers of the datapoints.
    No step waits, and nothing is copied in other steps.

    Args:
        factor: how far above, > 1.
        name: the name of the loss, a scalar that is not negative, without a tower's prefix.
        max_spikes: how many batches are written in a training, >= 1.

    Raises:
        ValueError: a number is out of its range; in `setup_graph`: the loss is not a floating-point scalar.
        KeyError: in `setup_graph`: the name does not exist.

    Runs at: setup_graph, every run.

    Example:
        >>> LossSpike(factor=10)

    Note: the first 100 steps are never spikes. The limit follows the losses every 50 steps. A loss that is not finite
    is not a spike; see `TerminateOnNaN`. A disk error is logged. Only the loss of the first tower is compared; the
    batches of all towers are written.
    """

    def __init__(self, factor: float = 5, name: str = "cost", max_spikes: int = 10) -> None:
        if not factor > 1:
            raise ValueError(f"LossSpike: factor is too small (expected more than 1, got {factor}).")
        self._factor = factor
        self._name = name
        self._left = check_at_least("LossSpike: max_spikes", max_spikes, 1)
        self._losses: Deque[float] = deque(maxlen=_NUM_REMEMBERED)
        self._limit_value = float("inf")

    def _setup_graph(self) -> None:
        loss = self.get_tensors_maybe_in_tower([self._name])[0]
        if not isinstance(loss, tf.Tensor) or not loss.dtype.is_floating or loss.shape.ndims != 0:
            raise ValueError(
                f"LossSpike: '{self._name}' is of the wrong type (expected a floating-point scalar, got {loss!r})."
            )
        self._capture = BatchCapture(self.trainer)
        collections = [tf.GraphKeys.LOCAL_VARIABLES]
        self._limit = tf.Variable(
            float("inf"), trainable=False, collections=collections, name="limit", use_resource=True
        )
        value = tf.cast(loss, tf.float32)
        is_spike = tf.logical_and(value > self._limit.read_value(), tf.math.is_finite(value))

        def keep() -> tf.Tensor:
            return self._capture.store(tf.constant(1, tf.int64))

        kept = tf.cond(is_spike, keep, lambda: tf.constant(0, tf.int64), name="is_spike")
        self._new_limit = tf.placeholder(tf.float32, [], name="new_limit")
        self._set_limit = self._limit.assign(self._new_limit, read_value=False)
        self._args = tf.train.SessionRunArgs([kept, value])

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        is_spike, loss = run_values.results
        self._capture.count_run()
        if is_spike and self._left:
            self._left -= 1
            self._report(float(loss))
        if np.isfinite(loss):
            self._losses.append(float(loss))
        if self.global_step % _STEPS_BETWEEN == 0 and len(self._losses) >= _NUM_NEEDED:
            self._update_limit()

    def _update_limit(self) -> None:
        quantile = float(np.percentile(self._losses, _QUANTILE))
        self._limit_value = self._factor * quantile if quantile > 0 and self._left else float("inf")
        session = tf.get_default_session() or self.trainer.sess
        session.run(self._set_limit, {self._new_limit: self._limit_value})

    def _report(self, loss: float) -> None:
        batches = self._capture.batches()
        datapoints = [batch.datapoint for batch in batches]
        text = f"LossSpike: {self._name} = {loss:.5g} at global_step={self.global_step}, limit {self._limit_value:.5g}"
        if datapoints:
            text += f", datapoint {', '.join(map(str, datapoints))}"
        parent = logger.get_logger_dir()
        if parent is None:
            logger.warning(text + ".")
            return
        directory = os.path.join(parent, f"spike-{self.global_step}")
        try:
            self._write(directory, text, batches)
            text += f". Batch: {directory}"
        except OSError as error:
            text += f". The batch cannot be written: {error}"
        logger.warning(text)
        write_note("spike", text, directory=directory, step=self.global_step, datapoints=datapoints)

    @staticmethod
    def _write(directory: str, text: str, batches: Sequence[TowerBatch]) -> None:
        os.makedirs(directory, exist_ok=True)
        write_batches(directory, batches)
        with open(os.path.join(directory, "report.txt"), "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
            for batch in batches:
                for sample in range(batch.num_samples):
                    file.write(f"tower {batch.tower}, sample {sample}: {describe_sample(batch, sample)}\n")
