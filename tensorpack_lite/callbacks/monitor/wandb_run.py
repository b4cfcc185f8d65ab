"""Weights & Biases."""

from __future__ import annotations

from typing import Any

from ...loop.state import Outcome
from ...utils import logger
from ...utils.optional import load_optional
from .rows import RowMonitor

__all__ = ["WandbMonitor"]

_EXIT_CODES = {Outcome.FAILED: 1, Outcome.INTERRUPTED: 255}  # wandb itself gives 255 after Ctrl-C


class WandbMonitor(RowMonitor):
    """
    Send scalars and images to Weights & Biases, at the steps of the training.

    The run starts before training and is finished after it: with exit code 0 if training finished or was stopped, 1 if
    it failed, and 255 if it was interrupted. See `Outcome`.

    Args:
        project: the project; None means wandb's default.
        name: the run's name; None lets wandb make one up.
        config: a dictionary of hyper-parameters to show with the run.
        run: a run that exists, from `wandb.init(...)`; it is used, and left open. Then the others are not looked at.
        **kwargs: for `wandb.init`, e.g. `entity`, `tags`, `id`, `resume`; `mode="offline"` needs no account. `dir` is the
            logger's directory unless given.

    Raises:
        ImportError: wandb is not installed.

    Attributes:
        run: the run, from before_train on.

    Runs at: before_train, trigger_step, trigger, after_train. Only in the chief process of a distributed training.

    Example:
        >>> WandbMonitor(project="digits", config={"lr": 0.1})
    """

    _chief_only = True

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        config: dict[str, Any] | None = None,
        run: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._wandb = load_optional("wandb", "WandbMonitor")
        self.run = run
        self._is_ours = run is None
        self._init_args = {"project": project, "name": name, "config": config, **kwargs}

    def process_image(self, name: str, val: Any) -> None:
        """Send images at the current step."""
        if self.run is not None:
            self.run.log({name: [self._wandb.Image(image) for image in val]}, step=self.global_step)

    def _before_train(self) -> None:
        if self.run is None:
            self._init_args.setdefault("dir", logger.get_logger_dir())
            self.run = self._wandb.init(**self._init_args)
        super()._before_train()

    def _write_row(self, row: dict[str, float]) -> None:
        self.run.log({**row, "epoch_num": self.epoch_num}, step=self.global_step)

    def _after_train(self) -> None:
        if self._is_ours and self.run is not None:
            self.run.finish(exit_code=_EXIT_CODES.get(self.trainer.loop.outcome, 0))
