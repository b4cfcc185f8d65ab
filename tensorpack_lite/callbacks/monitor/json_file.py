"""Monitor that writes `stats.json`."""

from __future__ import annotations

import json
import os
from typing import Any

from ...utils import logger
from ...utils.errors import DamagedFileError
from ...utils.json_rows import read_json_rows
from .rows import RowFile

__all__ = ["JSONWriter"]


class JSONWriter(RowFile):
    """
    Monitor that writes all scalars to `stats.json` in the logger's directory.

    The file is one JSON array of flat objects, `{"cost": 0.67, ..., "epoch_num": 1, "global_step": 20}`. Scalars
    gather, the last of one name counts, until they are written as one such object: before training, after each step
    but the last of an epoch, and at each trigger. So what is reported once an epoch stands in one object per epoch. At
    each write the whole file is written aside and moved into place.

    If the file exists when training begins: a training that resumes from a checkpoint cuts off the objects that were written after
    the checkpoint, see `RowFile`. Another one continues the file if its last epoch is the one before `starting_epoch`, or is not
    known; otherwise, or if it is damaged, the file is moved to `stats.json.<MMDD-HHMMSS>`, with a warning. Without a logger directory
    nothing is written, with a warning.

    Attributes:
        FILENAME: "stats.json".
        enabled: whether rows are written; False without a directory.
        path: the file, or None.

    Runs at: before_train, trigger_step, trigger.

    Note: what was reported in an epoch that did not finish is not written. A disk error is logged and does not end
    training.
    """

    FILENAME = "stats.json"

    def __init__(self) -> None:
        directory = logger.get_logger_dir()
        super().__init__(None if directory is None else os.path.join(directory, self.FILENAME))
        self.enabled = directory is not None
        if directory is None:
            logger.warning(
                "JSONWriter writes nothing: there is no logger directory. Call logger.set_logger_dir(...) before."
            )

    @staticmethod
    def load_existing_json(dir: str | None = None) -> list[dict[str, Any]] | None:
        """
        Read the `stats.json` of an earlier training.

        Args:
            dir: its directory; None means the logger's.

        Returns:
            The list of objects, or None if there is no such file (or no directory).

        Raises:
            DamagedFileError: the file is not a JSON array of objects.
        """
        directory = dir or logger.get_logger_dir()
        if directory is None:
            return None
        path = os.path.join(directory, JSONWriter.FILENAME)
        if not os.path.isfile(path):
            return None
        return read_json_rows(path)

    @staticmethod
    def load_existing_epoch_number(dir: str | None = None) -> int | None:
        """
        Return the epoch of the last row that an earlier training wrote. A checkpoint may be older: `AutoResumeTrainConfig` takes the
        epoch from the checkpoint.

        Args:
            dir: the directory of its `stats.json`; None means the logger's.

        Returns:
            The `epoch_num` of the last object, or None if there is none or the file is damaged.
        """
        try:
            elements = JSONWriter.load_existing_json(dir)
        except DamagedFileError:
            return None
        return _last_epoch(elements)

    def _read(self, path: str) -> list[dict[str, Any]]:
        return self.load_existing_json(os.path.dirname(path)) or []

    def _why_not_continued(self, rows: list[dict[str, Any]]) -> str | None:
        last_epoch, starting_epoch = _last_epoch(rows), self.trainer.starting_epoch
        if last_epoch is None or last_epoch + 1 == starting_epoch > 1:
            return None
        return (
            f"'{self.path}' ends at epoch {last_epoch}, but training starts at epoch {starting_epoch}. If this is to continue that "
            f"training, use AutoResumeTrainConfig, or pass starting_epoch={last_epoch + 1} and its checkpoint."
        )

    def _encode(self, row: dict[str, Any]) -> str:
        return json.dumps(row)  # once, although the file is written anew with each row

    def _write_row(self, row: dict[str, float]) -> None:
        if self.enabled:
            super()._write_row(row)

    def _write_all(self, path: str) -> None:
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            file.write(f"[{', '.join(self._rows)}]")
        os.replace(f"{path}.tmp", path)


def _last_epoch(elements: list[dict[str, Any]] | None) -> int | None:
    """Return the epoch of the last object; None if it has none."""
    try:
        return int(elements[-1]["epoch_num"])  # type: ignore[index]
    except (TypeError, IndexError, KeyError, ValueError, OverflowError):
        return None
