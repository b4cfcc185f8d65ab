"""Callback that writes the report of a training when it ends."""

from __future__ import annotations

import os
import threading

from ..input_source.reset import inputs_of
from ..loop.callback import Callback
from ..report.page import FILENAME, write_report
from ..report.samples import FIRST_BATCH, sample_path, write_samples
from ..utils import logger

_MAX_SECONDS = 1.0


class ReportWriter(Callback):
    """
    Callback that writes `report.html` to the logger's directory after training, whether it finished, failed or was
    interrupted: one file with curves, images, notes, settings and the end of the log. See docs/report.md.

    Its path is logged. Training waits at most 1 s for it. An error, or that it takes longer, is logged. After the
    first step, samples of the first batch are written to `samples/first-batch.npz`, so that the report of a training
    that is killed, which `tensorpack-lite report` writes, has them too. Without a logger directory, nothing is
    written.

    It comes after `ManifestWriter`, which adds how training ended. Images that were reported after the last epoch may be
    missing, because the event file is still open.

    Runs at: before_train, trigger_step, after_train.
    """

    def __init__(self) -> None:
        self._directory: str | None = None
        self._waits_for_batch = False

    def _before_train(self) -> None:
        self._directory = logger.get_logger_dir()
        if self._directory is not None:
            path = sample_path(self._directory, FIRST_BATCH)
            self._waits_for_batch = not (self.trainer.loop.is_resumed and os.path.exists(path))

    def _trigger_step(self) -> None:
        if self._waits_for_batch:
            self._waits_for_batch = False
            self._write_first_batch(str(self._directory))

    def _after_train(self) -> None:
        if self._directory is None:
            return
        thread = threading.Thread(target=self._write_report, args=(self._directory,), name="ReportWriter", daemon=True)
        thread.start()
        thread.join(_MAX_SECONDS)
        if thread.is_alive():
            logger.warning(
                f"ReportWriter: {FILENAME} takes longer than {_MAX_SECONDS} s. To write it later, run: "
                f"tensorpack-lite report {self._directory}"
            )

    def _write_first_batch(self, directory: str) -> None:
        flows = [source.flow for source in inputs_of(self.trainer)]
        batch = next((flow.first_datapoint() for flow in flows if flow.first_datapoint()), None)
        if batch is None:  # the data does not pass through Python
            return
        try:
            write_samples(directory, FIRST_BATCH, batch, self.global_step)
        except OSError as error:
            logger.error(f"ReportWriter: cannot write the first batch: {error}")

    @staticmethod
    def _write_report(directory: str) -> None:
        try:
            path = os.path.join(directory, FILENAME)
            write_report([directory], path, has_ended=True)
            logger.info(f"The report of this training is {path}.")
        except Exception as error:  # noqa: BLE001 (a report that fails must not end training)
            logger.error(f"ReportWriter: cannot write {FILENAME}: {type(error).__name__}: {error}")
