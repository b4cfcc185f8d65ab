"""What monitors share that write scalars together, one row for one moment."""

from __future__ import annotations

from .base import MonitorBase

__all__ = ["RowMonitor"]


class RowMonitor(MonitorBase):
    """
    Base class of monitors that write one row at a time: implement `_write_row`.

    Scalars gather, the last of one name counts, until they are written as one row: before training, after each step but
    the last of an epoch, and at each trigger. So what is reported once an epoch stands in one row per epoch.

    Runs at: before_train, trigger_step, trigger.

    Note: what was reported in an epoch that did not finish is not written.
    """

    def __init__(self) -> None:
        self._pending: dict[str, float] = {}

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the number until the next row."""
        self._pending[name] = val

    def _write_row(self, row: dict[str, float]) -> None:
        """
        Write one row, for the current `epoch_num` and `global_step`.

        Args:
            row: names and values; there is at least one.
        """
        raise NotImplementedError(f"{type(self).__name__}._write_row")

    def _before_train(self) -> None:
        self._flush()

    def _trigger_step(self) -> None:
        # What the last step reports is written with what the epoch's callbacks report.
        if self._pending and self.local_step != self.trainer.steps_per_epoch - 1:
            self._flush()

    def _trigger(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if self._pending:
            row, self._pending = self._pending, {}
            self._write_row(row)
