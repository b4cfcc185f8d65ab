"""Monitor for Comet."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from ...utils import logger
from ...utils.hyperparams import Value
from ...utils.optional import load_optional
from .base import MonitorBase


class CometMLMonitor(MonitorBase):
    """
    Monitor that sends scalars, images, texts, hyper-parameters and the graph to Comet.

    Args:
        experiment: a `comet_ml.Experiment`; None creates one.
        tags: tags to add to the experiment.
        **kwargs: arguments of a new `comet_ml.Experiment(...)`.

    Raises:
        ImportError: comet_ml is not installed.
        ValueError: both an experiment and arguments for a new one are given.

    Attributes:
        experiment: the experiment.

    Runs at: before_train, after_epoch, after_train.

    Note: a resumed training is a new experiment, which the log says. To continue one, pass a
    `comet_ml.ExistingExperiment`.

    Example:
        >>> CometMLMonitor(project_name="digits", tags=["baseline"])
    """

    def __init__(self, experiment: Any = None, tags: Sequence[str] | None = None, **kwargs: object) -> None:
        if experiment is not None and kwargs:
            raise ValueError(
                f"CometMLMonitor: got both an experiment and arguments for a new one, {sorted(kwargs)}. Pass only one of them."
            )
        self._is_ours = experiment is None
        if self._is_ours:
            experiment = load_optional("comet_ml", "CometMLMonitor").Experiment(**kwargs)
        self.experiment = experiment
        if tags:
            self.experiment.add_tags(list(tags))

    def process_scalar(self, name: str, val: float) -> None:
        """Send a scalar at the current step."""
        self.experiment.log_metric(name, val, step=self.global_step)

    def process_image(self, name: str, val: np.ndarray) -> None:
        """Send images, numbered from 0 if there are several."""
        for index, image in enumerate(val):
            numbered = f"{name}_{index}" if len(val) > 1 else name
            self.experiment.log_image(image, name=numbered, step=self.global_step)

    def process_text(self, name: str, val: Sequence[str]) -> None:
        """Send texts at the current step."""
        for text in val:
            self.experiment.log_text(text, step=self.global_step, metadata={"name": name})

    def process_hyperparams(self, values: Mapping[str, Value]) -> None:
        """Send hyper-parameters."""
        self.experiment.log_parameters(dict(values))

    def _before_train(self) -> None:
        if self._is_ours and self.trainer.loop.is_resumed:
            advice = "Pass an ExistingExperiment to continue one."
            logger.info(f"{self}: the resumed training is a new experiment. {advice}")
        self.experiment.set_model_graph(self.graph)

    def _after_epoch(self) -> None:
        self.experiment.log_epoch_end(self.epoch_num, step=self.global_step)

    def _after_train(self) -> None:
        self.experiment.end()
