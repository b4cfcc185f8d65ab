"""Base class of monitors: callbacks that also receive the scalars, images and events of a training."""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...loop.callback import Callback
from ...loop.trainer import LoopTrainer
from ...utils.hyperparams import Value


class MonitorBase(Callback):
    """
    Base class of monitors: override the `process_*` methods you need, and the methods of a callback.

    Each call of `trainer.monitors` is passed on immediately, in the same thread: `put_scalar` calls
    `process_scalar` and `process_summary`, `put_image` and `put_text` likewise, and `put_summary` calls
    `process_scalar` for each scalar in the summary and then `process_summary`.

    Runs at: the methods that a subclass overrides. In every process of a distributed training.

    Example:
        >>> class LogScalars(MonitorBase):
        ...     def process_scalar(self, name, val):
        ...         logger.info("%s is %s", name, val)
    """

    _chief_only = False

    def setup_graph(self, trainer: LoopTrainer) -> None:
        """Receive the trainer. Monitors create no graph, so no name scope is opened."""
        self.trainer = trainer
        self.graph = tf.get_default_graph()
        self._setup_graph()

    def process(self, name: str, val: object) -> None:
        """Receive any value. The library never calls this method; it is for custom monitors."""

    def process_scalar(self, name: str, val: float) -> None:
        """
        Receive a scalar.

        Args:
            name: its name, without `tower<k>/` and without a trailing `-summary`.
            val: a Python int or float.
        """

    def process_image(self, name: str, val: np.ndarray) -> None:
        """
        Receive images.

        Args:
            name: their name.
            val: an ndarray [N, H, W, C].
        """

    def process_text(self, name: str, val: Sequence[str]) -> None:
        """
        Receive texts, such as samples of a text model.

        Args:
            name: their name.
            val: a list of strings.
        """

    def process_hyperparams(self, values: Mapping[str, Value]) -> None:
        """
        Receive hyper-parameters, in before_train, before this monitor's own `_before_train`; see `RecordHyperParams`.

        Args:
            values: numbers, strings and booleans by name. A later call may have names of an earlier one.
        """

    def process_summary(self, summary: tf.Summary) -> None:
        """
        Receive a `tf.Summary`.

        Args:
            summary: the protocol buffer; its names are without `tower<k>/`, and those of scalars without `-summary`.
        """

    def process_event(self, evt: tf.Event) -> None:
        """
        Receive a `tf.Event` that is not a summary, such as the trace of a run.

        Args:
            evt: the protocol buffer; `step` and `wall_time` are filled in.
        """


class NoOpMonitor(MonitorBase):
    """
    Monitor that does nothing; a placeholder in a list.

    Args:
        name: the result of `str()`; None means the class name.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def __str__(self) -> str:
        return self._name or "NoOpMonitor"
