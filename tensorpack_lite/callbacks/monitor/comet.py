"""Comet."""

from __future__ import annotations

from typing import Any, Sequence

from ...utils.optional import load_optional
from .base import MonitorBase

__all__ = ["CometMLMonitor"]


class CometMLMonitor(MonitorBase):
    """
    Send scalars, images and the graph to Comet.

    Args:
        experiment: a `comet_ml.Experiment`; None makes one.
        tags: tags to add to it.
        **kwargs: for `comet_ml.Experiment(...)`, when there is none yet.

    Raises:
        ImportError: comet_ml is not installed.
        ValueError: both an experiment and arguments for one.

    Attributes:
        experiment: the experiment.

    Runs at: before_train, after_epoch, after_train.

    Example:
        >>> CometMLMonitor(project_name="digits", tags=["baseline"])

    tensorpack: same.
    """

    def __init__(self, experiment: Any = None, tags: Sequence[str] | None = None, **kwargs: Any) -> None:
        if experiment is not None and kwargs:
            raise ValueError(
                f"CometMLMonitor: got an experiment, and {sorted(kwargs)} for a new one. Leave one of them out."
            )
        if experiment is None:
            experiment = load_optional("comet_ml", "CometMLMonitor").Experiment(**kwargs)
        self.experiment = experiment
        if tags:
            self.experiment.add_tags(list(tags))

    def process_scalar(self, name: str, val: float) -> None:
        """Send a number at the current step."""
        self.experiment.log_metric(name, val, step=self.global_step)

    def process_image(self, name: str, val: Any) -> None:
        """Send images, numbered from 0 if there are several."""
        for index, image in enumerate(val):
            numbered = f"{name}_{index}" if len(val) > 1 else name
            self.experiment.log_image(image, name=numbered, step=self.global_step)

    def _before_train(self) -> None:
        self.experiment.set_model_graph(self.graph)

    def _after_epoch(self) -> None:
        self.experiment.log_epoch_end(self.epoch_num, step=self.global_step)

    def _after_train(self) -> None:
        self.experiment.end()
