"""The k best checkpoints."""

from __future__ import annotations

import json
import re
from typing import Any

from ..utils import logger
from ..utils.errors import DamagedFileError, parsing
from .saver import MinSaver

__all__ = ["TopKSaver"]


class TopKSaver(MinSaver):
    """
    Keep copies of the k checkpoints with the best values of a statistic, as `top-<statistic>-<global_step>`.

    What `MinSaver` does for one checkpoint, with the same conditions: it comes after the `ModelSaver` and after what
    reports the statistic, and triggers when they do. Which copies there are is kept in `top-<statistic>.json`, the best
    first: a training that resumes goes on from them, one that begins at step 0 does not. The file also lists, as
    `unlisted`, copies that are being made or removed: if the process is killed meanwhile, the next start removes them.

    Args:
        monitor_stat: a scalar of `trainer.monitors`.
        k: how many to keep, >= 1. (Lightning's `save_top_k`)
        mode: "min" when smaller is better, "max" when larger is.
        filename: what the copies' names begin with; None means as above, with "-" for each "/" of the statistic.
        checkpoint_dir: the `ModelSaver`'s directory. None means the logger's.

    Raises:
        ValueError: `k` is not positive, `mode` is something else, or `filename` is a path.
        RuntimeError, OSError: as `MinSaver`.

    Attributes:
        kept: `[(step, value), ...]`, the best first.
        best: the first of them, or None.

    Runs at: setup_graph, before_train, trigger.

    Example:
        >>> TopKSaver("validation_accuracy", k=5, mode="max")
    """

    def __init__(
        self,
        monitor_stat: str,
        k: int = 3,
        mode: str = "min",
        filename: str | None = None,
        checkpoint_dir: str | None = None,
    ) -> None:
        if k < 1:
            raise ValueError(f"TopKSaver: k is {k}, wanted at least 1.")
        if mode not in ("min", "max"):
            raise ValueError(f"TopKSaver: mode is {mode!r}, wanted 'min' or 'max'.")
        filename = filename or f"top-{monitor_stat.replace('/', '-')}"
        super().__init__(monitor_stat, mode == "max", filename, checkpoint_dir)
        self.k = k
        self.kept: list[tuple[int, float]] = []

    def _before_train(self) -> None:
        self._remove_leftovers(re.escape(self._filename) + r"-\d+")
        self.kept = self._read_kept()
        self.best = self.kept[0] if self.kept else None

    def _is_better(self, value: float) -> bool:
        if value != value:  # NaN
            return False
        if len(self.kept) < self.k:
            return True
        worst = self.kept[-1][1]
        return value > worst if self.reverse else value < worst

    def _copy(self, checkpoint: str, step: int, value: float) -> None:
        self._write_record(self.kept, [step])
        self._store.copy(checkpoint, self._name_of(step))
        entries = [entry for entry in self.kept if entry[0] != step]
        entries.append((step, value))
        entries.sort(key=lambda entry: -entry[1] if self.reverse else entry[1])
        dropped, self.kept = entries[self.k :], entries[: self.k]
        self.best = self.kept[0]
        self._write_record(self.kept, [old_step for old_step, _ in dropped])
        for old_step, _ in dropped:
            self._store.remove(self._name_of(old_step))
        logger.info(
            "Model at step %d with '%s' = %.5g saved to %s, number %d of the best %d.",
            step,
            self.monitor_stat,
            value,
            self._store.path(self._name_of(step)),
            self.kept.index((step, value)) + 1,
            self.k,
        )

    def _name_of(self, step: int) -> str:
        return f"{self._filename}-{step}"

    def _write_record(self, kept: list[tuple[int, float]], unlisted: list[int]) -> None:
        """Write which copies are kept, and which ones must be removed if the process is killed now."""
        record: dict[str, Any] = {
            "stat": self.monitor_stat,
            "kept": [{"step": step, "value": value} for step, value in kept],
            "unlisted": unlisted,
        }
        self._store.write_text(f"{self._filename}.json", json.dumps(record))

    def _read_kept(self) -> list[tuple[int, float]]:
        """
        Read what an earlier training has kept, if this one continues it; only copies that are still there count.

        Copies that the earlier training was making or removing when it was killed are removed.
        """
        file = f"{self._filename}.json"
        text = self._store.read_bytes(file)
        if text is None:
            return []
        try:
            with parsing(self._store.path(file), "a record of checkpoints"):
                record = json.loads(text)
                kept = [(int(entry["step"]), float(entry["value"])) for entry in record["kept"]]
                unlisted = {int(step) for step in record.get("unlisted", [])} - {step for step, _ in kept}
        except DamagedFileError as error:
            logger.warning("%s: %s It is not used.", self, error)
            return []
        for step in sorted(unlisted):
            self._store.remove(self._name_of(step))
        if self.global_step == 0:
            logger.warning("%s: training starts anew, the copies of an earlier one do not count.", self)
            return []
        return [entry for entry in kept if self._store.files(self._name_of(entry[0]))][: self.k]
