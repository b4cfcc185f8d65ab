"""Training on one device."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..input_source.base import InputSource
from ..input_source.queueing import QueueInput
from ..loop.callback import Callback
from ..tfutils.tower.context import TrainTowerContext
from ..utils import logger
from ..utils.errors import type_error
from .tower import SingleCostTrainer

__all__ = ["NoOpTrainer", "QueueInputTrainer", "SimpleTrainer"]


class SimpleTrainer(SingleCostTrainer):
    """
    Train one tower, without name prefix, wherever TensorFlow puts it.

    A DataFlow given to it is fed through placeholders (`FeedInput`), step by step; a `QueueInput` overlaps data and
    training.

    tensorpack: same.
    """

    def _setup_graph(
        self,
        input: InputSource,
        get_cost_fn: Callable[..., Any],
        get_opt_fn: Callable[[], Any],
    ) -> list[Callback]:
        logger.info("Building the graph of the training tower ...")
        with TrainTowerContext(""):
            grads = self._make_get_grad_fn(input, get_cost_fn, get_opt_fn)()
            self.train_op = get_opt_fn().apply_gradients(grads, name="train_op")
        return []


class NoOpTrainer(SimpleTrainer):
    """
    Build everything, train nothing: each step runs the callbacks' fetches only.

    For evaluating a model with training's callbacks, or for measuring them.

    tensorpack: same.
    """

    def run_step(self) -> None:
        """Run the hooks, and no train_op."""
        self.hooked_sess.run([])


class QueueInputTrainer(SimpleTrainer):
    """
    Old name for a SimpleTrainer with a QueueInput.

    Raises:
        TypeError: the input is of another kind.

    tensorpack: same.
    """

    def _setup_input(
        self,
        input_signature: Sequence[Any],
        input: InputSource,
    ) -> list[Callback]:
        logger.warning("QueueInputTrainer is an old name. Use SimpleTrainer with a QueueInput.")
        if not isinstance(input, QueueInput):
            raise type_error(
                "QueueInputTrainer", "a QueueInput", input, "Use SimpleTrainer for other inputs."
            )
        return super()._setup_input(input_signature, input)
