"""Monitor that logs the scalars of each epoch in a few lines."""

from __future__ import annotations

import math
from typing import Any

from ...report.summary import is_of_the_machine, is_validation
from ...utils import logger
from ...utils.direction import better_direction
from .base import MonitorBase

_WIDTH = 80
_PREFIX = len("[0131 23:59:59] ")
_INDENT = "  "
_MAX_LINES = 3
_LEGEND = " (*: best so far)"


class ScalarTable(MonitorBase):
    """
    Monitor that logs the scalars that were reported in each epoch, in at most three lines of 80 columns: the last value of
    each, with a `*` if it is the best so far. Of validation, the best value and its epoch follow if they are others.

    Statistics of validation come first, then those for which a better value is known, then others such as `learning_rate`. What
    finds no room is counted. `stats.json` has all scalars; to log others, use `ScalarPrinter`.

    The last known word in a name decides what "best" means: smaller for cost, error, loss and others such as mse and
    perplexity; larger for accuracy, precision, recall, reward, score and others such as auc and psnr. Other scalars have no
    best value. NaN is never the best.

    Runs at: before_train (if something was reported), trigger. A checkpoint keeps the best values.

    Example:
        >>> TrainConfig(model=Model(), data=data, monitors=[JSONWriter(), ScalarTable()])

    Note: one of the default monitors.
    """

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._best: dict[str, tuple[float, int]] = {}
        self._has_explained = False

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the number until the next lines."""
        self._values[name] = float(val)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the best values and their epochs, and the scalars of the next lines."""
        best = {name: list(best) for name, best in self._best.items()}
        return {"best": best, "values": dict(self._values)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the best values and their epochs, and the scalars of the next lines."""
        self._best = {name: (value, epoch) for name, (value, epoch) in state["best"].items()}
        self._values = dict(state.get("values", {}))

    def _before_train(self) -> None:
        self._log("Before training")

    def _trigger(self) -> None:
        self._log(f"Epoch {self.epoch_num}")

    def _log(self, title: str) -> None:
        if not self._values:
            return
        cells = [self._cell(name, self._values[name]) for name in sorted(self._values, key=_rank)]
        has_mark = any(cell.endswith("*") for cell in cells)
        legend = _LEGEND if has_mark and not self._has_explained else ""
        self._has_explained |= has_mark
        lines = _wrap([f"{title}{legend}: {cells[0]}", *cells[1:]])
        logger.info("\n".join(lines))
        self._values.clear()

    def _cell(self, name: str, value: float) -> str:
        sign = better_direction(name)
        is_better = name not in self._best or sign * value > sign * self._best[name][0]
        if sign != 0 and not math.isnan(value) and is_better:
            self._best[name] = (value, self.epoch_num)
            return f"{name} {value:.4g}*"
        best, epoch = self._best.get(name, (None, 0))
        is_shown = best is not None and is_validation(name)
        return f"{name} {value:.4g}" + (f" (best {best:.4g}, epoch {epoch})" if is_shown else "")


def _rank(name: str) -> tuple[bool, bool, bool, str]:
    return not is_validation(name), better_direction(name) == 0, is_of_the_machine(name), name


def _wrap(cells: list[str]) -> list[str]:
    """Return the cells in lines; those for which there is no room in three lines are counted."""
    lines, room = [cells[0]], _WIDTH - _PREFIX
    for number, cell in enumerate(cells[1:], 1):
        is_last_line, num_left = len(lines) == _MAX_LINES, len(cells) - number
        more = f", and {num_left - 1} more" if is_last_line and num_left > 1 else ""
        if len(lines[-1]) + len(f", {cell}{more or ','}") <= room:
            lines[-1] += f", {cell}"
        elif is_last_line:
            lines[-1] += f", and {num_left} more"
            break
        else:
            lines[-1] += ","
            lines.append(_INDENT + cell)
            room = _WIDTH
    return lines
