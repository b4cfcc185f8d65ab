"""Monitor that logs a table of scalars after each epoch."""

from __future__ import annotations

import math
from typing import Any

from tabulate import tabulate

from ...utils import logger
from ...utils.direction import better_direction
from .base import MonitorBase


class ScalarTable(MonitorBase):
    """
    Monitor that logs a table of the scalars that were reported in each epoch: the last value, the best value so far, and its
    epoch.

    The last known word in a name decides what "best" means: smaller for cost, error, loss and others such as mse and
    perplexity; larger for accuracy, precision, recall, reward, score and others such as auc and psnr. Other scalars, such as
    `learning_rate`, have no best value. NaN is never the best.

    Runs at: before_train (if something was reported), trigger. A checkpoint keeps the best values.

    Example:
        >>> TrainConfig(model=Model(), data=data, monitors=[JSONWriter(), ScalarTable()])

    Note: one of the default monitors. For one line per scalar, or a selection of scalars, use `ScalarPrinter`.
    """

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._best: dict[str, tuple[float, int]] = {}

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the number until the next table."""
        self._values[name] = float(val)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the best values and their epochs, and the scalars of the next table."""
        best = {name: list(best) for name, best in self._best.items()}
        return {"best": best, "values": dict(self._values)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the best values and their epochs, and the scalars of the next table."""
        self._best = {name: (value, epoch) for name, (value, epoch) in state["best"].items()}
        self._values = dict(state.get("values", {}))

    def _before_train(self) -> None:
        self._log_table("Statistics before training")

    def _trigger(self) -> None:
        self._log_table(f"Statistics of epoch {self.epoch_num}")

    def _log_table(self, title: str) -> None:
        if not self._values:
            return
        rows = [self._make_row(name, self._values[name]) for name in sorted(self._values)]
        headers = ["statistic", "value", "best", "in epoch"]
        table = tabulate(rows, headers, disable_numparse=True, colalign=["left", "right", "right", "right"])
        logger.info("%s:\n%s", title, table)
        self._values.clear()

    def _make_row(self, name: str, value: float) -> list[str]:
        sign = better_direction(name)
        is_better = name not in self._best or sign * value > sign * self._best[name][0]
        if sign != 0 and not math.isnan(value) and is_better:
            self._best[name] = (value, self.epoch_num)
        best, epoch = self._best.get(name, (None, ""))
        return [name, f"{value:.5g}", "" if best is None else f"{best:.5g}", str(epoch)]
