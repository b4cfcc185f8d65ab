"""Base classes for monitors that write scalars as rows, in general and to a file."""

from __future__ import annotations

import os
import shutil
from abc import abstractmethod
from datetime import datetime
from itertools import takewhile
from typing import Any

from ...utils import logger
from .base import MonitorBase

CONTINUED = "continues run {}. Scalars that were reported after the checkpoint may be there twice."


class RowMonitor(MonitorBase):
    """
    Base class for monitors that write one row at a time: implement `_write_row`.

    Scalars are collected, the last value of each name counts, and written as one row before training, after
    each step except the last of an epoch, and at each trigger. So scalars that are reported once per epoch
    share one row per epoch.

    A checkpoint keeps the scalars collected so far. A training that resumes from it drops scalars that are
    reported before training, because an uninterrupted training has no such row at that point.

    Runs at: before_train, trigger_step, trigger.

    Note: scalars reported in an unfinished epoch are not written.
    """

    def __init__(self) -> None:
        self._pending: dict[str, float] = {}

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the scalar until the next row."""
        self._pending[name] = val

    def state_dict(self) -> dict[str, Any] | None:
        """Return the scalars collected so far."""
        return {"pending": dict(self._pending)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the scalars collected so far."""
        self._pending = dict(state["pending"])

    def _write_row(self, row: dict[str, float]) -> None:
        """
        Write one row, for the current `epoch_num` and `global_step`.

        Args:
            row: names and values, at least one.
        """
        raise NotImplementedError(f"{type(self).__name__}._write_row")

    def _before_train(self) -> None:
        if self.trainer.loop.is_resumed:
            self._pending = {}
        self._flush()

    def _trigger_step(self) -> None:
        # The scalars of the last step are written together with those of the epoch's callbacks.
        if self._pending and self.local_step != self.trainer.steps_per_epoch - 1:
            self._flush()

    def _trigger(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if self._pending:
            row, self._pending = self._pending, {}
            self._write_row(row)


class RowFile(RowMonitor):
    """
    Base class for monitors that write their rows to a file, to which a later training can append.

    If the file exists when training starts, there are three cases. A training that resumes from a checkpoint
    keeps the rows written before the checkpoint and removes the later ones, which it will write again; the
    first time, the original file is copied to `<file>.before-resume`. A training that continues the epochs of
    the file without such a checkpoint appends to it. Otherwise, or if the file is damaged, it is moved to
    `<file>.<MMDD-HHMMSS>`, with a warning.

    A disk error is logged and does not end training; the next write includes the missing rows.

    Args:
        path: the file, or None to write nothing.

    Attributes:
        path: the absolute path of the file, or None.

    Runs at: before_train, trigger_step, trigger.
    """

    def __init__(self, path: str | None) -> None:
        super().__init__()
        self.path = None if path is None else os.path.abspath(path)
        self._rows: list[Any] = []  # all rows of the file, as returned by `_encode`
        self._is_behind = False

    # Methods for subclasses to override ------------------------------------------------------------------------------
    @abstractmethod
    def _read(self, path: str) -> list[dict[str, Any]]:
        """Read all rows of the file; raise ValueError if it is damaged, or of another format."""

    @abstractmethod
    def _why_not_continued(self, rows: list[dict[str, Any]]) -> str | None:
        """Return why a training that begins with `starting_epoch` cannot append to these rows, or None if it can."""

    @abstractmethod
    def _write_all(self, path: str) -> None:
        """Write all rows to a temporary file, and move it into place."""

    def _encode(self, row: dict[str, float]) -> dict[str, float] | str:
        """Return the form of a row that is kept in memory."""
        return row

    def _write_last(self, path: str) -> None:
        """Write the newest row."""
        self._write_all(path)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the scalars collected so far, and the number of written rows."""
        return {"pending": dict(self._pending), "rows": len(self._rows)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the scalars collected so far, and remove the rows that were written later."""
        super().load_state_dict(state)
        if self.path is None:
            return
        if len(self._rows) < state["rows"]:
            what = f"'{self.path}' has only {len(self._rows)} of the {state['rows']} rows"
            logger.warning(f"{self}: {what} that it had when the checkpoint was saved.")
        self._cut(self.path, state["rows"])

    def _before_train(self) -> None:
        if self.path is not None:
            leftover = f"{self.path}.tmp"  # of a killed process
            try:
                if os.path.isfile(leftover):
                    os.remove(leftover)
            except OSError as error:
                logger.error("Cannot remove '%s', left by a killed process: %s", leftover, error)
            if os.path.isfile(self.path):
                self._continue_or_move_existing(self.path)
        super()._before_train()

    def _continue_or_move_existing(self, path: str) -> None:
        is_resumed = self.trainer.loop.is_resumed
        try:
            rows = self._read(path)
            reason = None if is_resumed else self._why_not_continued(rows)
        except ValueError as error:
            reason = str(error)
        if reason is not None:
            backup = f"{path}.{datetime.now().strftime('%m%d-%H%M%S')}"
            os.replace(path, backup)
            logger.warning("%s: %s The file was moved to '%s'.", self, reason, backup)
            return
        logger.info("%s: appending to the existing '%s'.", self, path)
        self._rows = [self._encode(row) for row in rows]
        if is_resumed:
            steps = (counter_in(row, "global_step") or 0 for row in rows)
            self._cut(path, len(list(takewhile(lambda step: step <= self.global_step, steps))))

    def _cut(self, path: str, num_rows: int) -> None:
        num_cut = len(self._rows) - num_rows
        if num_cut <= 0:
            return
        copy = f"{path}.before-resume"
        if not os.path.exists(copy):
            shutil.copyfile(path, copy)
            logger.info("%s: the original file was copied to '%s'.", self, copy)
        del self._rows[num_rows:]
        self._save(path, is_last_enough=False)
        logger.info("%s: removed %d rows that were written after the checkpoint was saved.", self, num_cut)

    def _write_row(self, row: dict[str, float]) -> None:
        if self.path is not None:
            place = {"epoch_num": self.epoch_num, "global_step": self.global_step}
            self._rows.append(self._encode({**row, **place}))
            self._save(self.path, is_last_enough=not self._is_behind)

    def _save(self, path: str, is_last_enough: bool) -> None:
        write = self._write_last if is_last_enough else self._write_all
        try:
            write(path)
            self._is_behind = False
        except OSError as error:
            self._is_behind = True
            logger.error("%s: cannot write '%s': %s", self, path, error)


def counter_in(row: Any, name: str) -> int | None:
    """Return the `epoch_num` or `global_step` of a row that was read from a file, or None if it has none."""
    try:
        return int(row[name])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
