"""Callback that keeps the k best checkpoints."""

from __future__ import annotations

import json
import re
from typing import Any

from ..utils import logger
from ..utils.checks import check_at_least
from ..utils.direction import choose_mode
from .best_saver import MinSaver


class TopKSaver(MinSaver):
    """
    Callback that keeps copies of the k checkpoints with the best values of a statistic, as `top-<statistic>-<global_step>`.

    Like `MinSaver`, put it after the `ModelSaver` and the callback that reports the statistic, and trigger it
    together with them. The file `top-<statistic>.json` lists the copies, the best first, for a training that
    resumes; a training that starts at step 0 ignores it. Its entry `unlisted` holds copies that are being
    made or removed: if the process is killed meanwhile, the next start removes them.

    Args:
        monitor_stat: a scalar of `trainer.monitors`.
        k: number of copies to keep, >= 1 (`save_top_k` in Lightning).
        mode: "min" if smaller is better, "max" if larger is better. None means that the name of the statistic decides, as in the
            table in the log.
        filename: prefix of the copies' names; None means the one above, with "-" for each "/" in the statistic's name.
        checkpoint_dir: the directory of the `ModelSaver`. None means the logger's directory.
        strict, restore_best: as in `MinSaver`; the best of the copies is restored.

    Raises:
        ValueError: `k` is not positive, `mode` is unknown or is None and the name does not tell, or `filename` is a path.
        TypeError, KeyError, RuntimeError, OSError: as `MinSaver`.

    Attributes:
        kept: `[(step, value), ...]`, the best first.
        best: the first of them, or None.

    Runs at: setup_graph, before_train, trigger, after_train.

    Example:
        >>> TopKSaver("validation_accuracy", k=5)
    """

    def __init__(
        self,
        monitor_stat: str,
        k: int = 3,
        mode: str | None = None,
        filename: str | None = None,
        checkpoint_dir: str | None = None,
        *,
        strict: bool = True,
        restore_best: bool | str = False,
    ) -> None:
        check_at_least("TopKSaver: k", k, 1)
        is_max = choose_mode("TopKSaver", monitor_stat, mode) == "max"
        filename = filename or f"top-{monitor_stat.replace('/', '-')}"
        super().__init__(monitor_stat, is_max, filename, checkpoint_dir, strict=strict, restore_best=restore_best)
        self.k = k
        self.kept: list[tuple[int, float]] = []

    def _before_train(self) -> None:
        self._remove_leftovers(re.escape(self._filename) + r"-\d+")
        self.kept = self._read_kept()
        self.best = self.kept[0] if self.kept else None

    def state_dict(self) -> dict[str, Any] | None:
        """Return the steps and values of the copies."""
        return {"kept": [list(entry) for entry in self.kept]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the list of copies. Copies of later steps are replaced when training reaches these steps again."""
        self.kept = [(step, value) for step, value in state["kept"]][: self.k]
        self.best = self.kept[0] if self.kept else None

    def _worst_kept(self) -> tuple[int, float] | None:
        return self.kept[-1] if len(self.kept) == self.k else None

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
        path, rank = logger.shown_path(self._store.path(self._name_of(step))), self.kept.index((step, value)) + 1
        logger.info(f"{self.monitor_stat} {value:.5g}, rank {rank} of the best {self.k}, saved to {path}.")

    def _name_of(self, step: int) -> str:
        return f"{self._filename}-{step}"

    def _write_record(self, kept: list[tuple[int, float]], unlisted: list[int]) -> None:
        """Write which copies are kept, and which ones the next start must remove if the process is killed now."""
        record: dict[str, Any] = {
            "stat": self.monitor_stat,
            "kept": [{"step": step, "value": value} for step, value in kept],
            "unlisted": unlisted,
        }
        self._store.write_text(f"{self._filename}.json", json.dumps(record))

    def _read_kept(self) -> list[tuple[int, float]]:
        """
        Return the copies of an earlier training that still exist, if this training continues it.

        Copies that the earlier training was making or removing when it was killed are removed.
        """

        def parse(record: Any) -> tuple[list[tuple[int, float]], set[int]]:
            kept = [(int(entry["step"]), float(entry["value"])) for entry in record["kept"]]
            return kept, {int(step) for step in record.get("unlisted", [])}

        parsed = self._parse_record(parse)
        if parsed is None:
            return []
        kept, unlisted = parsed
        for step in sorted(unlisted - {step for step, _ in kept}):
            self._store.remove(self._name_of(step))
        if self.global_step == 0:
            logger.warning(f"{self}: training starts at step 0, the copies of an earlier training are ignored.")
            return []
        return [entry for entry in kept if self._store.files(self._name_of(entry[0]))][: self.k]
