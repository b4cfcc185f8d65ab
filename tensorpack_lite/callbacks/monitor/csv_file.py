"""Monitor that writes `stats.csv`."""

from __future__ import annotations

import csv
import os
from typing import Any

from ...utils import logger
from ...utils.errors import parsing
from ...utils.replacing import replacing
from .rows import RowFile, counter_in

_FIRST_COLUMNS = ["epoch_num", "global_step"]


class CSVWriter(RowFile):
    """
    Monitor that writes all scalars to a CSV file, one row per epoch or step.

    The first line holds the names. Rows are written at the same times as in `stats.json`. When a scalar is
    reported for the first time, the file is rewritten with one more column, which is empty in older rows.

    If the file exists when training starts, a training that resumes from a checkpoint removes the rows
    written after the checkpoint, see `RowFile`. Any other training appends to the file if it ends before
    `starting_epoch`; otherwise the file is moved to `<file>.<MMDD-HHMMSS>`, with a warning. Without a
    directory, nothing is written, with a warning.

    Args:
        path: the file; None means `stats.csv` in the logger's directory.

    Attributes:
        path: the file, from `setup_graph` on; None without a directory.

    Runs at: before_train, trigger_step, trigger.

    Example:
        >>> TrainConfig(model=Model(), data=data, monitors=[*DEFAULT_MONITORS(), CSVWriter()])

    Note: a disk error is logged and does not end training. This monitor is like `CSVLogger` in Keras and Lightning.
    """

    FILENAME = "stats.csv"

    def __init__(self, path: str | None = None) -> None:
        super().__init__(path)
        self._given_path = self.path
        self._columns: list[str] = []

    def _setup_graph(self) -> None:
        directory = logger.get_logger_dir()
        self.path = self._given_path or (os.path.join(directory, self.FILENAME) if directory else None)
        if self.path is None and self.trainer.is_chief:
            logger.warning(
                "CSVWriter: no logger directory, so nothing is written. Call logger.set_logger_dir(...) first, or pass a path."
            )

    def _read(self, path: str) -> list[dict[str, Any]]:
        with open(path, encoding="utf-8", newline="") as file, parsing(path, "a table"):
            reader = csv.DictReader(file)
            rows: list[dict[str, Any]] = list(reader)
            if any(None in row for row in rows):
                raise ValueError("a row has more columns than the first line")
            columns = list(reader.fieldnames or ())
        if columns[:2] != _FIRST_COLUMNS:
            raise ValueError(f"'{path}' has the wrong first columns (expected {_FIRST_COLUMNS}, got {columns[:2]}).")
        self._columns = columns
        return rows

    def _why_not_continued(self, rows: list[dict[str, Any]]) -> str | None:
        starting_epoch = self.trainer.starting_epoch
        if not rows:
            return None
        last_epoch = counter_in(rows[-1], "epoch_num")
        if last_epoch is not None and last_epoch < starting_epoch != 1:
            return None
        self._columns = []
        return (
            f"'{self.path}' has rows of epoch {starting_epoch} or later, and training starts at epoch {starting_epoch}."
        )

    def _write_last(self, path: str) -> None:
        row = self._rows[-1]
        if not set(self._columns).issuperset(row):
            self._write_all(path)
            return
        with open(path, "a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, self._columns).writerow(row)

    def _write_all(self, path: str) -> None:
        """Write a temporary file with the columns of the rows, and move it into place."""
        used = {name: None for row in self._rows for name, value in row.items() if value not in ("", None)}
        self._columns = [*_FIRST_COLUMNS, *(name for name in used if name not in _FIRST_COLUMNS)]
        with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self._columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(self._rows)
