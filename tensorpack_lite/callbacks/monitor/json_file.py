"""Monitor that writes `stats.json`."""

from __future__ import annotations

import os
from typing import Any

from ...utils import logger
from ...utils.errors import DamagedFileError
from ...utils.json_rows import encode_json_row, read_json_rows
from ...utils.replacing import replacing
from .rows import RowFile, counter_in


class JSONWriter(RowFile):
    """
    Monitor that writes all scalars to `stats.json` in the logger's directory.

    The file is one JSON array of flat objects, `{"cost": 0.67, ..., "epoch_num": 1, "global_step": 20}`. NaN and infinity, which
    JSON does not have, are the strings "NaN", "Infinity" and "-Infinity"; `load_existing_json` returns them as numbers. Scalars are
    collected, the last value of each name counts, and written as one object before training, after each step except the
    last of an epoch, and at each trigger. So scalars that are reported once per epoch share one object per epoch. Each
    write replaces the file atomically.

    If the file exists when training starts, a training that resumes from a checkpoint removes the objects
    written after the checkpoint, see `RowFile`. Any other training appends to the file if its last epoch is
    `starting_epoch - 1` or unknown; otherwise, or if the file is damaged, it is moved to
    `stats.json.<MMDD-HHMMSS>`, with a warning. Without a logger directory, nothing is written, and the
    chief warns.

    Attributes:
        FILENAME: "stats.json".
        enabled: whether objects are written; False without a directory.
        path: the file, from `setup_graph` on; None without a directory.

    Runs at: before_train, trigger_step, trigger.

    Note: scalars reported in an unfinished epoch are not written. A disk error is logged and does not end training.
    """

    FILENAME = "stats.json"

    def __init__(self) -> None:
        super().__init__(None)
        self.enabled = True

    def _setup_graph(self) -> None:
        directory = logger.get_logger_dir()
        self.path = None if directory is None else os.path.join(directory, self.FILENAME)
        self.enabled = directory is not None
        if directory is None and self.trainer.is_chief:
            logger.warning(
                "JSONWriter: no logger directory, so nothing is written. Call logger.set_logger_dir(...) first."
            )

    @staticmethod
    def load_existing_json(dir: str | None = None) -> list[dict[str, Any]] | None:
        """
        Read the `stats.json` of an earlier training.

        Args:
            dir: its directory; None means the logger's directory.

        Returns:
            The list of objects, or None if the file or the directory does not exist.

        Raises:
            DamagedFileError: the file is not a JSON array of objects.
        """
        directory = dir or logger.get_logger_dir()
        if directory is None:
            return None
        path = os.path.join(directory, JSONWriter.FILENAME)
        return read_json_rows(path) if os.path.isfile(path) else None

    @staticmethod
    def load_existing_epoch_number(dir: str | None = None) -> int | None:
        """
        Return the epoch of the last object that an earlier training wrote.

        The checkpoint may be older, so `AutoResumeTrainConfig` takes the epoch from the checkpoint.

        Args:
            dir: the directory of `stats.json`; None means the logger's directory.

        Returns:
            The `epoch_num` of the last object, or None if there is none or the file is damaged.
        """
        try:
            elements = JSONWriter.load_existing_json(dir)
        except DamagedFileError:
            return None
        return counter_in(elements[-1], "epoch_num") if elements else None

    def _read(self, path: str) -> list[dict[str, Any]]:
        return self.load_existing_json(os.path.dirname(path)) or []

    def _why_not_continued(self, rows: list[dict[str, Any]]) -> str | None:
        last_epoch = counter_in(rows[-1], "epoch_num") if rows else None
        starting_epoch = self.trainer.starting_epoch
        if last_epoch is None or last_epoch + 1 == starting_epoch > 1:
            return None
        return (
            f"'{self.path}' ends at epoch {last_epoch}, but training starts at epoch {starting_epoch}. To continue that training, "
            f"use AutoResumeTrainConfig, or pass starting_epoch={last_epoch + 1} and its checkpoint."
        )

    def _encode(self, row: dict[str, float]) -> str:
        return encode_json_row(row)  # encode each row only once, although each write rewrites the file

    def _write_row(self, row: dict[str, float]) -> None:
        if self.enabled:
            super()._write_row(row)

    def _write_all(self, path: str) -> None:
        with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.write(f"[{', '.join(self._rows)}]")
