"""Trainers for one device."""

from __future__ import annotations

from typing import Callable, Sequence

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..input_source.base import InputSource
from ..input_source.feed import FeedInput
from ..input_source.queueing import QueueInput
from ..loop.callback import Callback
from ..tfutils.tower.context import TrainTowerContext
from ..utils import logger
from ..utils.errors import type_error
from .tower import CostFn, OptFn, SingleCostTrainer


class SimpleTrainer(SingleCostTrainer):
    """
    Trainer with one tower, without a name prefix, on TensorFlow's default device.

    A DataFlow is fed through placeholders (`FeedInput`) at each step. Pass a `QueueInput` to prepare data in
    parallel to the steps.

    Attributes:
        default_input: makes the input of a DataFlow; other trainers may have one, too.

    Difference from tensorpack: subclasses are fed in the same way; tensorpack gives them a QueueInput.
    """

    default_input: Callable[[DataFlow], InputSource] = FeedInput

    def _setup_graph(self, input: InputSource, get_cost_fn: CostFn, get_opt_fn: OptFn) -> list[Callback]:
        logger.info("Building the graph of the training tower ...")
        with TrainTowerContext(""):
            grads = self._make_get_grad_fn(input, get_cost_fn, get_opt_fn)()
            self.train_op = get_opt_fn().apply_gradients(grads, name="train_op")
        return []


class NoOpTrainer(SimpleTrainer):
    """
    Trainer that builds the same graph as SimpleTrainer, but runs only the callbacks' fetches in each step.

    Use it to evaluate a model with the callbacks of a training, or to measure their cost.
    """

    default_input = QueueInput  # whose datapoints a step without `train_op` does not take

    def _report_cost(self) -> None:
        self.cost = None  # computing it would take a datapoint in each step

    def run_step(self) -> None:
        """Run the hooks without `train_op`."""
        self.hooked_sess.run([])


class QueueInputTrainer(SimpleTrainer):
    """
    A SimpleTrainer that accepts only a QueueInput; kept for old scripts.

    Raises:
        TypeError: the input is not a QueueInput.
    """

    default_input = QueueInput

    def _setup_input(self, input_signature: Sequence[tf.TensorSpec], input: InputSource) -> list[Callback]:
        logger.warning("QueueInputTrainer is deprecated. Use SimpleTrainer with a QueueInput.")
        if not isinstance(input, QueueInput):
            raise type_error("QueueInputTrainer", "a QueueInput", input, "Use SimpleTrainer for other inputs.")
        return super()._setup_input(input_signature, input)
