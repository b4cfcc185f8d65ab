"""Monitor for Weights & Biases."""

from __future__ import annotations

from html import escape
from typing import Any, Mapping, Sequence

import numpy as np

from ...loop.state import Outcome
from ...utils import logger
from ...utils.hyperparams import Value
from ...utils.optional import load_optional
from .rows import CONTINUED, RowMonitor

# wandb itself uses 255 after Ctrl-C
_EXIT_CODES: dict[Outcome | None, int] = {Outcome.FAILED: 1, Outcome.INTERRUPTED: 255}


class WandbMonitor(RowMonitor):
    """
    Monitor that sends scalars, images and texts to Weights & Biases, with the step at which they were reported, and the
    hyper-parameters.

    The run starts before training and finishes after it, with exit code 0 if training finished or was
    stopped, 1 if it failed, and 255 if it was interrupted; see `Outcome`. A training that resumes from a
    checkpoint continues the run, unless `id` or `resume` is given. The run then may have scalars twice that
    were reported after the checkpoint, which the log says.

    Args:
        project: name of the project; None means wandb's default.
        name: name of the run; None lets wandb choose one.
        config: dictionary of hyper-parameters of the run. Recorded ones of the same names are skipped.
        run: an existing run from `wandb.init(...)`. It is left open, and the other arguments are ignored.
        **kwargs: arguments of `wandb.init`, e.g. `entity`, `tags`, `id`, `resume`; `mode="offline"` needs no
            account. The default of `dir` is the logger's directory.

    Raises:
        ImportError: wandb is not installed.

    Attributes:
        run: the run, available from before_train on; in a resumed training, from before_epoch on.

    Runs at: before_train, trigger_step, trigger, after_train. Only in the chief process of a distributed training.

    Example:
        >>> WandbMonitor(project="digits", config={"lr": 0.1})
    """

    _chief_only = True

    def __init__(
        self,
        project: str | None = None,
        name: str | None = None,
        config: Mapping[str, object] | None = None,
        run: Any = None,
        **kwargs: object,
    ) -> None:
        super().__init__()
        self._wandb = load_optional("wandb", "WandbMonitor")
        self.run = run
        self._is_ours = run is None
        self._hyperparams: dict[str, Value] = {}
        self._init_args = {"project": project, "name": name, "config": config, **kwargs}

    def process_image(self, name: str, val: np.ndarray) -> None:
        """Send images at the current step."""
        if self.run is not None:
            self.run.log({name: [self._wandb.Image(image) for image in val]}, step=self.global_step)

    def process_text(self, name: str, val: Sequence[str]) -> None:
        """Send texts at the current step."""
        if self.run is not None:
            self.run.log(
                {name: [self._wandb.Html(f"<pre>{escape(text)}</pre>") for text in val]}, step=self.global_step
            )

    def process_hyperparams(self, values: Mapping[str, Value]) -> None:
        """Keep hyper-parameters until the run starts, or add them to the user's run."""
        self._hyperparams.update(values)
        if self.run is not None:
            self._send_hyperparams()

    def _before_train(self) -> None:
        if self.run is None and not self.trainer.loop.is_resumed:
            self._start_run()
        super()._before_train()

    def _before_epoch(self) -> None:
        if self.run is None:  # the checkpoint has no run
            self._start_run()

    def _start_run(self) -> None:
        self._init_args.setdefault("dir", logger.get_logger_dir())
        self.run = self._wandb.init(**self._init_args)
        self._send_hyperparams()

    def _send_hyperparams(self) -> None:
        new = {name: value for name, value in self._hyperparams.items() if name not in self.run.config}
        if new:
            self.run.config.update(new)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the id of a separate run, and the scalars collected so far."""
        run_id = self.run.id if self._is_ours and self.run is not None else None
        return {**(super().state_dict() or {}), "run_id": run_id}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run."""
        super().load_state_dict(state)
        run_id = state.get("run_id")
        if self.run is None and run_id is not None and not {"id", "resume"} & set(self._init_args):
            self._init_args.update(id=run_id, resume="allow")
            self._start_run()
            logger.info(f"{self}: {CONTINUED.format(run_id)}")

    def _write_row(self, row: dict[str, float]) -> None:
        if self.run is None:  # the checkpoint has scalars, but no run
            self._start_run()
        self.run.log({**row, "epoch_num": self.epoch_num}, step=self.global_step)

    def _after_train(self) -> None:
        if self._is_ours and self.run is not None:
            self.run.finish(exit_code=_EXIT_CODES.get(self.trainer.loop.outcome, 0))
