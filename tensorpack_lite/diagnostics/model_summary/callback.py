"""The callback that logs the summary of a model."""

from __future__ import annotations

import json
import os

from ...loop.callback import Callback
from ...utils import logger
from ...utils.replacing import replacing
from .show import as_json, show_summary
from .summary import summarize


class ModelSummary(Callback):
    """
    Callback that logs a table of the layers before the first step: output shape, parameters, floating-point
    operations, and the memory in training and inference. It also writes `model.json` to the logger's directory, for
    the report.

    Nothing is computed: all numbers come from the shapes in the graph. `tensorpack-lite summary train.py` shows the same without
    a change of the script. With several towers, the first one counts.

    Raises:
        ValueError: in `before_train`: the trainer has no training tower with a cost.

    Attributes:
        summary: the `Summary`, from `before_train` on.

    Runs at: before_train.
    """

    def _before_train(self) -> None:
        self.summary = summarize(self.trainer)
        logger.info(f"Summary of the model:\n{show_summary(self.summary)}")
        directory = logger.get_logger_dir()
        if directory is not None:
            with replacing(os.path.join(directory, "model.json")) as path, open(path, "w", encoding="utf-8") as file:
                json.dump(as_json(self.summary), file, indent=1)
