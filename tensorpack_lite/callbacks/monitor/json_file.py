"""`stats.json`: every scalar of a training, in a file that any program can read."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Any

from ...utils import logger
from .rows import RowMonitor

__all__ = ["JSONWriter"]


class JSONWriter(RowMonitor):
    """
    Write all scalars to `stats.json` in the logger's directory.

    The file is one JSON array of flat objects, `{"cost": 0.67, ..., "epoch_num": 1, "global_step": 20}`. Scalars
    gather, the last of one name counts, until they are written as one such object: before training, after each step
    but the last of an epoch, and at each trigger. So what is reported once an epoch stands in one object per epoch. At
    each write the whole file is written aside and moved into place.

    When training begins and the file exists: if its last epoch is the one before `starting_epoch`, or is not known, it is
    continued; otherwise it is moved to `stats.json.<MMDD-HHMMSS>`, with a warning. Without a logger directory nothing
    is written, with a warning.

    Attributes:
        FILENAME: "stats.json".
        enabled: whether there is a directory to write to.

    Runs at: before_train, trigger_step, trigger.

    Note: what was reported in an epoch that did not finish is not written. A disk error is logged and does not end
    training.

    tensorpack: same.
    """

    FILENAME = "stats.json"

    def __init__(self) -> None:
        super().__init__()
        directory = logger.get_logger_dir()
        self.enabled = directory is not None
        if directory is None:
            logger.warning(
                "JSONWriter writes nothing: there is no logger directory. Call logger.set_logger_dir(...) before."
            )
        self._path = os.path.join(directory or "", self.FILENAME)
        self._elements: list[str] = []  # each one encoded once

    @staticmethod
    def load_existing_json(dir: str | None = None) -> list[dict[str, Any]] | None:
        """
        Read the `stats.json` of an earlier training.

        Args:
            dir: its directory; None means the logger's.

        Returns:
            The list of objects, or None if there is no such file (or no directory).

        Raises:
            ValueError: the file is not a JSON array.
        """
        directory = dir or logger.get_logger_dir()
        if directory is None:
            return None
        path = os.path.join(directory, JSONWriter.FILENAME)
        if not os.path.isfile(path):
            return None
        with open(path, encoding="utf-8") as file:
            try:
                elements = json.load(file)
            except ValueError as error:
                raise ValueError(f"JSONWriter: '{path}' is not JSON: {error}. Move it away.") from error
        if not isinstance(elements, list):
            raise ValueError(
                f"JSONWriter: '{path}' holds a {type(elements).__name__}, not a list. Move it away."
            )
        return elements

    @staticmethod
    def load_existing_epoch_number(dir: str | None = None) -> int | None:
        """
        Say at which epoch the last training stopped.

        Args:
            dir: the directory of its `stats.json`; None means the logger's.

        Returns:
            The `epoch_num` of the last object, or None if there is none.
        """
        try:
            elements = JSONWriter.load_existing_json(dir)
        except ValueError:
            return None
        return _last_epoch(elements)

    def _before_train(self) -> None:
        if self.enabled:
            self._continue_or_move_existing()
        super()._before_train()

    def _continue_or_move_existing(self) -> None:
        try:
            existing = self.load_existing_json(os.path.dirname(self._path))
        except ValueError as error:
            logger.warning(str(error))
            self._move_existing()
            return
        if existing is None:
            return
        last_epoch, starting_epoch = _last_epoch(existing), self.trainer.starting_epoch
        if last_epoch is None or last_epoch + 1 == starting_epoch:
            logger.info("JSONWriter continues the existing '%s'.", self._path)
            self._elements = [json.dumps(element) for element in existing]
            return
        logger.warning(
            "JSONWriter: '%s' ends at epoch %d, but training starts at epoch %d. If this is to continue that training, "
            "pass starting_epoch=%d.",
            self._path,
            last_epoch,
            starting_epoch,
            last_epoch + 1,
        )
        self._move_existing()

    def _move_existing(self) -> None:
        backup = f"{self._path}.{datetime.now().strftime('%m%d-%H%M%S')}"
        os.replace(self._path, backup)
        logger.warning("JSONWriter: the existing file is now '%s'.", backup)

    def _write_row(self, row: dict[str, float]) -> None:
        if not self.enabled:
            return
        element = dict(row, epoch_num=self.epoch_num, global_step=self.global_step)
        self._elements.append(json.dumps(element))
        try:
            with open(f"{self._path}.tmp", "w", encoding="utf-8") as file:
                file.write(f"[{', '.join(self._elements)}]")
            os.replace(f"{self._path}.tmp", self._path)
        except OSError as error:
            logger.error("JSONWriter: cannot write '%s': %s", self._path, error)


def _last_epoch(elements: list[dict[str, Any]] | None) -> int | None:
    """Give the epoch of the last object; None if it does not say."""
    try:
        return int(elements[-1]["epoch_num"])  # type: ignore[index]
    except (TypeError, IndexError, KeyError, ValueError):
        return None
