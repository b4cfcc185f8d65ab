"""Callbacks that keep the best checkpoint."""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any, Callable, TypeVar

from ..loop.callback import Callback
from ..loop.state import Outcome
from ..tfutils.checkpoint_background import background_save
from ..tfutils.checkpoint_store import CheckpointStore
from ..tfutils.sessinit import SaverRestoreRelaxed
from ..utils import logger
from ..utils.checks import check_choice
from ..utils.direction import check_direction
from ..utils.errors import DamagedFileError, parsing
from .directories import find_checkpoint_dir, need_checkpoint_dir
from .ema import EMAWeights
from .statistic_reader import StatisticReader

T = TypeVar("T")


class MinSaver(Callback):
    """
    Callback that keeps a copy of the checkpoint with the smallest value of a statistic, as `min-<statistic>`.

    At each trigger, the files of the latest checkpoint are copied if the newest value of the statistic is the best so far
    and both are of the same step. So put this callback after the `ModelSaver` and the callback that reports the statistic, and
    trigger it together with them. A checkpoint keeps the best value. It is also stored in `min-<statistic>.json`, for a training
    that resumes from a checkpoint without it; a training that starts at step 0 ignores the file.

    Args:
        monitor_stat: a scalar of `trainer.monitors`.
        reverse: keep the largest value instead, as `max-<statistic>`; False means the smallest one, even of an accuracy.
        filename: name of the copy; None means the name above, with "-" for each "/" in the statistic's name.
        checkpoint_dir: the directory of the `ModelSaver`. None means the logger's directory.
        strict: raise a KeyError, which ends training, at the end of the first epoch in which this callback is triggered, if the
            statistic has not been reported, e.g. because it is misspelt. A callback that may report it later, such as one inside
            a PeriodicTrigger, delays the error. False logs a warning at each trigger.
        restore_best: restore the variables of the best copy in `after_train`, when training has finished or was stopped, as by
            `EarlyStopping`; callbacks behind this one then see the best model. "averages" also puts the averages of
            `EMAWeights` into the variables. Checkpoints do not change, so the training can be continued from its end. Of several
            ranks, only the chief restores.

    Raises:
        TypeError: `monitor_stat` is not a string.
        ValueError: larger values are better by the statistic's name, and `reverse` was not passed; `filename` is a path, or
            `restore_best` is unknown; in `setup_graph`: it is "averages", and there is no
            `EMAWeights`.
        KeyError: at the end of an epoch, see `strict`.
        RuntimeError: in `setup_graph`: there is no directory; at a trigger: it holds no checkpoint, and no ModelSaver comes before
            this callback.
        OSError: the copy cannot be written; the previous copy stays intact.

    Attributes:
        best: `(step, value)` of the copy, or None.

    Runs at: setup_graph, before_train, trigger, after_train.

    Example:
        >>> MinSaver("validation_error", restore_best=True)

    Difference from tensorpack: tensorpack 0.11 forgets the best value when training resumes, and ignores a statistic that
    was never reported.
    """

    def __init__(
        self,
        monitor_stat: str,
        reverse: bool | None = None,
        filename: str | None = None,
        checkpoint_dir: str | None = None,
        *,
        strict: bool = True,
        restore_best: bool | str = False,
    ) -> None:
        if filename is not None and os.path.basename(filename) != filename:
            raise ValueError(
                f"{type(self).__name__}: filename is a path (expected a name inside checkpoint_dir, got '{filename}')."
            )
        choices = (False, True, "averages")
        self.restore_best = check_choice(f"{type(self).__name__}: restore_best", restore_best, choices)
        self._reader = StatisticReader(self, monitor_stat, strict)
        self.monitor_stat = monitor_stat
        if reverse is None:
            args = repr(monitor_stat)
            advice = f"Use MaxSaver({args}), or MinSaver({args}, reverse=False) to keep the smallest value."
            check_direction("MinSaver", monitor_stat, -1, advice)
        self.reverse = bool(reverse)
        self._filename = filename or f"{'max' if reverse else 'min'}-{monitor_stat.replace('/', '-')}"
        self._given_dir = find_checkpoint_dir(checkpoint_dir) if checkpoint_dir else None
        self.checkpoint_dir = self._given_dir
        self.best: tuple[int, float] | None = None

    def _setup_graph(self) -> None:
        who = type(self).__name__
        self._store = CheckpointStore(need_checkpoint_dir(self._given_dir, who), who)
        self.checkpoint_dir = self._store.directory
        self._background = background_save(self.checkpoint_dir)
        self._is_behind_saver = self._background.has_saver
        if self.restore_best == "averages" and not self.trainer.find_callbacks(EMAWeights):
            raise ValueError(
                f"{who}: restore_best='averages' needs averages. Add an EMAWeights before the ModelSaver, or use restore_best=True."
            )

    def _before_train(self) -> None:
        self._remove_leftovers(re.escape(self._filename))
        self.best = self._read_record()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the best value and its step."""
        return {"best": None if self.best is None else list(self.best)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the best value and its step, if the copy exists. The JSON file may have later ones."""
        is_copied = state["best"] is not None and self._store.files(self._filename)
        self.best = tuple(state["best"]) if is_copied else None

    @property
    def state_name(self) -> str:
        """The name of the class, and that of the copy."""
        return f"{self}({self._filename})"

    def _remove_leftovers(self, checkpoints: str) -> None:
        self._background.wait()
        self._store.remove_leftovers(checkpoints, re.escape(f".{self._filename}.json.tmp"))

    def _trigger(self) -> None:
        newest = self._reader.read()
        if newest is None:
            return
        step, value = newest
        worst = self._worst_kept()
        is_better = worst is None or (value > worst[1] if self.reverse else value < worst[1])
        if math.isnan(value) or not is_better:
            return
        self._background.wait()
        self._store.fsync = self._background.fsync
        checkpoint = self._store.latest()
        if checkpoint is None and not self._is_behind_saver:
            raise RuntimeError(
                f"{self}: no checkpoint to copy in '{self.checkpoint_dir}'. Put a ModelSaver with the same directory before "
                "this callback."
            )
        if checkpoint is None or _step_of(checkpoint) != step:
            monitors: Any = self.trainer.monitors  # the class is above this module
            order = monitors.advice_on_order(self.monitor_stat, self)
            latest = "there is no checkpoint yet" if checkpoint is None else f"the latest checkpoint is {checkpoint}"
            logger.warning(
                f"{self}: '{self.monitor_stat}' is best at step {step}, but {latest}, so there is nothing to copy. "
                f"{order or 'Trigger ModelSaver at the same times.'}"
            )
            return
        self._copy(checkpoint, step, value)

    def _after_train(self) -> None:
        has_ended = self.trainer.loop.outcome in (Outcome.FINISHED, Outcome.STOPPED)
        if not self.restore_best or not has_ended:
            return
        self._background.wait()
        if self.best is None:
            logger.warning(f"{self}: there is no best model to restore, because none was copied.")
            return
        step, value = self.best
        SaverRestoreRelaxed(self._store.path(self._name_of(step)))._run_init(self.trainer.sess)
        if self.restore_best == "averages":
            self.trainer.find_callbacks(EMAWeights)[0].put_averages()
        logger.info(f"{self}: training ends with the model of step {step}, with '{self.monitor_stat}' = {value:.5g}.")

    def _name_of(self, step: int) -> str:
        """Return the name of the copy of a step."""
        return self._filename

    def _worst_kept(self) -> tuple[int, float] | None:
        """Return the step and value of the copy that the next one replaces, or None."""
        return self.best

    def _copy(self, checkpoint: str, step: int, value: float) -> None:
        record = json.dumps({"stat": self.monitor_stat, "step": step, "value": value})
        self._store.copy(checkpoint, self._filename, {f"{self._filename}.json": record})
        self.best = (step, value)
        path = logger.shown_path(self._store.path(self._filename))
        logger.info(f"Best {self.monitor_stat} {value:.5g} saved to {path}.")

    def _read_record(self) -> tuple[int, float] | None:
        """Read the best value of an earlier training, if this training continues it."""
        best = self._parse_record(lambda record: (int(record["step"]), float(record["value"])))
        if best is None or not self._store.files(self._filename):
            return None
        if self.global_step == 0:
            logger.warning(f"{self}: training starts at step 0, the best value of an earlier training is ignored.")
            return None
        logger.info(f"{self}: the best '{self.monitor_stat}' so far is {best[1]:.5g}, at step {best[0]}.")
        return best

    def _parse_record(self, parse: Callable[[Any], T]) -> T | None:
        """Parse the JSON record. Return None if it is missing or, with a warning, if it is damaged."""
        file = f"{self._filename}.json"
        text = self._store.read_bytes(file)
        try:
            with parsing(self._store.path(file), "a record of checkpoints"):
                return None if text is None else parse(json.loads(text))
        except DamagedFileError as error:
            logger.warning("%s: %s The file is ignored.", self, error)
            return None


def _step_of(checkpoint: str) -> int | None:
    """Return the step in the name of a ModelSaver's checkpoint; None for another name."""
    match = re.fullmatch(r"model-(\d+)", checkpoint)
    return None if match is None else int(match.group(1))


class MaxSaver(MinSaver):
    """
    Callback that keeps a copy of the checkpoint with the largest value of a statistic, as `max-<statistic>`; see `MinSaver`.

    Args:
        monitor_stat, filename, checkpoint_dir, strict, restore_best: as in `MinSaver`.

    Raises:
        ValueError: smaller values are better by the statistic's name. Use `MinSaver`.
        TypeError, KeyError, RuntimeError, OSError: as `MinSaver`.

    Runs at: setup_graph, before_train, trigger, after_train.

    Example:
        >>> MaxSaver("validation_accuracy")
    """

    def __init__(
        self,
        monitor_stat: str,
        filename: str | None = None,
        checkpoint_dir: str | None = None,
        *,
        strict: bool = True,
        restore_best: bool | str = False,
    ) -> None:
        super().__init__(monitor_stat, True, filename, checkpoint_dir, strict=strict, restore_best=restore_best)
        args = repr(monitor_stat)
        advice = f"Use MinSaver({args}), or MinSaver({args}, reverse=True) to keep the largest value."
        check_direction("MaxSaver", monitor_stat, 1, advice)
