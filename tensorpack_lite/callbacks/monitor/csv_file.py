"""`stats.csv`: every scalar of a training, as a table."""

from __future__ import annotations

import csv
import os
from datetime import datetime
from typing import Any

from ...utils import logger
from .rows import RowMonitor

__all__ = ["CSVWriter"]

_FIRST_COLUMNS = ["epoch_num", "global_step"]


class CSVWriter(RowMonitor):
    """
    Write all scalars to a CSV file, one row for each moment at which something was reported.

    The first line has the names. Rows are written when those of `stats.json` are, and appended; when a scalar appears
    for the first time, the file is written anew with one more column, and older rows have nothing in it.

    When training begins and the file exists: if it ends before `starting_epoch`, it is continued; otherwise it is moved to
    `<file>.<MMDD-HHMMSS>`, with a warning. Without a directory nothing is written, with a warning.

    Args:
        path: the file; None means `stats.csv` in the logger's directory.

    Attributes:
        path: the file, or None.

    Runs at: before_train, trigger_step, trigger.

    Example:
        >>> TrainConfig(model=Model(), data=data, monitors=[*DEFAULT_MONITORS(), CSVWriter()])

    Note: a disk error is logged and does not end training. It is Keras' and Lightning's `CSVLogger`.
    """

    FILENAME = "stats.csv"

    def __init__(self, path: str | None = None) -> None:
        super().__init__()
        directory = logger.get_logger_dir()
        self.path = path or (os.path.join(directory, self.FILENAME) if directory else None)
        if self.path is None:
            logger.warning(
                "CSVWriter writes nothing: there is no logger directory. Call logger.set_logger_dir(...) before, or pass "
                "a path."
            )
        self._columns: list[str] = []
        self._rows: list[dict[str, Any]] = []  # all of the file, for the day when a column is added

    def _before_train(self) -> None:
        if self.path is not None and os.path.isfile(self.path):
            self._continue_or_move_existing(self.path)
        super()._before_train()

    def _write_row(self, row: dict[str, float]) -> None:
        if self.path is None:
            return
        full = {"epoch_num": self.epoch_num, "global_step": self.global_step, **row}
        self._rows.append(full)
        new = [name for name in full if name not in self._columns]
        self._columns += new
        try:
            if new:
                self._write_all(self.path)
            else:
                with open(self.path, "a", encoding="utf-8", newline="") as file:
                    csv.DictWriter(file, self._columns).writerow(full)
        except OSError as error:
            logger.error("CSVWriter: cannot write '%s': %s", self.path, error)

    def _write_all(self, path: str) -> None:
        """Write the file aside and move it into place, so that it is complete at any time."""
        with open(f"{path}.tmp", "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            writer.writeheader()
            writer.writerows(self._rows)
        os.replace(f"{path}.tmp", path)

    def _continue_or_move_existing(self, path: str) -> None:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows, columns = list(reader), list(reader.fieldnames or ())
        starting_epoch = self.trainer.starting_epoch
        if columns[:2] == _FIRST_COLUMNS and _ends_before(rows, starting_epoch):
            logger.info("CSVWriter continues the existing '%s'.", path)
            self._columns, self._rows = columns, list(rows)
            return
        backup = f"{path}.{datetime.now().strftime('%m%d-%H%M%S')}"
        os.replace(path, backup)
        logger.warning(
            "CSVWriter: '%s' does not end before epoch %d, with which training starts. It is now '%s'.",
            path,
            starting_epoch,
            backup,
        )


def _ends_before(rows: list[dict[str, str]], starting_epoch: int) -> bool:
    try:
        return not rows or int(rows[-1]["epoch_num"]) < starting_epoch
    except (ValueError, TypeError):  # no number there
        return False
