"""Callbacks that save checkpoints: regularly, and of the best model so far."""

from __future__ import annotations

import json
import math
import os
import re
import time
from datetime import datetime
from typing import Any, Sequence

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.checkpoint_state import STATE_SUFFIX, write_state
from ..tfutils.checkpoint_store import CheckpointStore
from ..utils import logger
from ..utils.errors import DamagedFileError, parsing
from .directories import find_checkpoint_dir, need_checkpoint_dir

__all__ = ["MaxSaver", "MinSaver", "ModelSaver"]

# TensorFlow writes a meta graph to a file of this form, then renames it.
_TEMPORARY = r"\.checkpoint\.tmp|graph-\d{4}-\d{6}\.meta\.tmp[0-9a-f]{32}"


class ModelSaver(Callback):
    """
    Save the model at each trigger, as `model-<global_step>`, and the graph once, as `graph-<MMDD-HHMMSS>.meta`.

    A checkpoint is complete or absent: it is written aside, read back, moved into place, and listed in the file
    `checkpoint` last. The names in that file are relative, so the directory can be moved. Temporary files of a training
    that was killed are removed before training.

    Beside the variables, `model-<global_step>.state` holds the place of the training: epoch, step, and which callbacks have been
    called, this one included; and what callbacks return from `state_dict()`. `AutoResumeTrainConfig` continues there.

    Args:
        max_to_keep: how many checkpoints to keep; older ones are removed. None or 0 keeps all.
        keep_checkpoint_every_n_hours: of those that are to be removed, let one in so many hours stay for ever.
        checkpoint_dir: where; created if it is missing. None means the logger's directory.
        var_collections: a collection or a list of them, whose variables are saved: those that exist when this callback
            sets up. None means `GLOBAL_VARIABLES`.

    Raises:
        RuntimeError: in `setup_graph`, there is no directory.
        OSError: a file cannot be written; the checkpoints before it are intact.

    Attributes:
        checkpoint_dir: the directory, or None.
        saver: the `tf.train.Saver`, from `setup_graph` on; also in the collection `SAVERS`.

    Runs at: setup_graph, before_train, trigger.

    Example:
        >>> ModelSaver(max_to_keep=50)

    tensorpack: there disk errors are logged and training goes on, and checkpoints of a training that is resumed are no
    longer managed; here those listed in `checkpoint` count, and are removed in their turn.
    """

    def __init__(
        self,
        max_to_keep: int | None = 10,
        keep_checkpoint_every_n_hours: float = 0.5,
        checkpoint_dir: str | None = None,
        var_collections: str | Sequence[str] | None = None,
    ) -> None:
        if var_collections is None:
            var_collections = [tf.GraphKeys.GLOBAL_VARIABLES]
        self._var_collections = (
            [var_collections] if isinstance(var_collections, str) else list(var_collections)
        )
        self._max_to_keep = max_to_keep
        self._secs_between_kept = keep_checkpoint_every_n_hours * 3600
        self._next_to_keep = time.time() + self._secs_between_kept
        self.checkpoint_dir = find_checkpoint_dir(checkpoint_dir)
        self.saver: Any = None

    def _setup_graph(self) -> None:
        self._store = CheckpointStore(need_checkpoint_dir(self.checkpoint_dir, "ModelSaver"), "ModelSaver")
        self.checkpoint_dir = self._store.directory
        members = [v for key in self._var_collections for v in tf.get_collection(key)]
        variables = {id(variable): variable for variable in members}
        # The store decides what is kept, so the Saver forgets nothing and removes nothing.
        self.saver = tf.train.Saver(
            list(variables.values()),
            max_to_keep=None,
            write_version=tf.train.SaverDef.V2,
            save_relative_paths=True,
        )
        tf.add_to_collection(tf.GraphKeys.SAVERS, self.saver)

    def _before_train(self) -> None:
        self._store.remove_leftovers(r"model-\d+", _TEMPORARY)
        name = f"graph-{datetime.now().strftime('%m%d-%H%M%S')}.meta"
        keys = self.graph.get_all_collection_keys()
        try:
            self.saver.export_meta_graph(os.path.join(self._store.directory, name), collection_list=keys)
        except tf.errors.OpError as error:
            raise OSError(f"ModelSaver: cannot write '{self._store.path(name)}': {error.message}.") from error
        self._store.adopt_listed()

    def _trigger(self) -> None:
        name = f"model-{self.global_step}"
        self._store.save(name, self._write)
        self._store.record(name, self._max_to_keep, self._shall_stay)
        logger.info("Model saved to %s.", self._store.path(name))

    def _write(self, prefix: str) -> None:
        self.saver.save(tf.get_default_session(), prefix, write_meta_graph=False, write_state=False)
        write_state(prefix + STATE_SUFFIX, self.trainer.state_dict())

    def _shall_stay(self, saved_at: float) -> bool:
        if saved_at <= self._next_to_keep:
            return False
        self._next_to_keep += self._secs_between_kept
        return True


class MinSaver(Callback):
    """
    Keep a copy of the checkpoint with the smallest value of a statistic, as `min-<statistic>`.

    At each trigger, if the newest value of the statistic is the best so far and the latest checkpoint is of the same step,
    the checkpoint's files are copied. So it comes after the `ModelSaver` and after what reports the statistic, and
    triggers when they do. The best value is kept in `min-<statistic>.json` too: a training that resumes goes on
    from it, one that begins at step 0 does not.

    Args:
        monitor_stat: a scalar of `trainer.monitors`.
        reverse: keep the largest instead, as `max-<statistic>`.
        filename: the copy's name; None means as above, with "-" for each "/" of the statistic.
        checkpoint_dir: the `ModelSaver`'s directory. None means the logger's.

    Raises:
        ValueError: `filename` is a path.
        RuntimeError: in `setup_graph`, there is no directory; at a trigger, nothing was saved there yet.
        OSError: the copy cannot be written; the one before it is intact.

    Attributes:
        best: `(step, value)` of the copy, or None.

    Runs at: setup_graph, before_train, trigger.

    Example:
        >>> MinSaver("validation_error")

    tensorpack: there the best value is forgotten when training resumes, it counts even if nothing was copied, and step
    100 is taken for step 1100.
    """

    def __init__(
        self,
        monitor_stat: str,
        reverse: bool = False,
        filename: str | None = None,
        checkpoint_dir: str | None = None,
    ) -> None:
        if filename is not None and os.path.basename(filename) != filename:
            raise ValueError(
                f"{type(self).__name__}: filename is '{filename}', wanted a name inside checkpoint_dir."
            )
        self.monitor_stat = monitor_stat
        self.reverse = reverse
        self._filename = filename or f"{'max' if reverse else 'min'}-{monitor_stat.replace('/', '-')}"
        self.checkpoint_dir = find_checkpoint_dir(checkpoint_dir)
        self.best: tuple[int, float] | None = None

    def _setup_graph(self) -> None:
        who = type(self).__name__
        self._store = CheckpointStore(need_checkpoint_dir(self.checkpoint_dir, who), who)
        self.checkpoint_dir = self._store.directory

    def _before_train(self) -> None:
        self._remove_leftovers(re.escape(self._filename))
        self.best = self._read_record()

    def _remove_leftovers(self, checkpoints: str) -> None:
        self._store.remove_leftovers(checkpoints, re.escape(f".{self._filename}.json.tmp"))

    def _trigger(self) -> None:
        history = self.trainer.monitors.get_history(self.monitor_stat)
        if not history:
            logger.warning("%s: nobody has reported '%s' yet.", self, self.monitor_stat)
            return
        step, value = history[-1]
        if not self._is_better(value):
            return
        checkpoint = self._store.latest()
        if checkpoint is None:
            raise RuntimeError(
                f"{self}: there is no checkpoint in '{self.checkpoint_dir}' to copy. Put a ModelSaver before it, with the "
                "same directory."
            )
        match = re.fullmatch(r"model-(\d+)", checkpoint)
        if match is None or int(match.group(1)) != step:
            logger.warning(
                "%s: '%s' is at its best at step %d, but the latest checkpoint is %s, so it cannot be kept. "
                "Trigger ModelSaver at the same times.",
                self,
                self.monitor_stat,
                step,
                checkpoint,
            )
            return
        self._copy(checkpoint, step, value)

    def _is_better(self, value: float) -> bool:
        if math.isnan(value):
            return False
        return self.best is None or (value > self.best[1] if self.reverse else value < self.best[1])

    def _copy(self, checkpoint: str, step: int, value: float) -> None:
        self._store.copy(checkpoint, self._filename)
        self.best = (step, value)
        self._store.write_text(
            f"{self._filename}.json", json.dumps({"stat": self.monitor_stat, "step": step, "value": value})
        )
        logger.info(
            "Model at step %d with %s '%s' = %.5g saved to %s.",
            step,
            "maximum" if self.reverse else "minimum",
            self.monitor_stat,
            value,
            self._store.path(self._filename),
        )

    def _read_record(self) -> tuple[int, float] | None:
        """Read what an earlier training has kept, if this one continues it."""
        file = f"{self._filename}.json"
        text = self._store.read_bytes(file)
        if text is None or not self._store.files(self._filename):
            return None
        try:
            with parsing(self._store.path(file), "a record of the best checkpoint"):
                record = json.loads(text)
                best = int(record["step"]), float(record["value"])
        except DamagedFileError as error:
            logger.warning("%s: %s It is not used.", self, error)
            return None
        if self.global_step == 0:
            logger.warning("%s: training starts anew, the best value of an earlier one is not used.", self)
            return None
        logger.info(
            "%s: the best '%s' so far is %.5g, of step %d.", self, self.monitor_stat, best[1], best[0]
        )
        return best


class MaxSaver(MinSaver):
    """
    Keep a copy of the checkpoint with the largest value of a statistic, as `max-<statistic>`; see `MinSaver`.

    Args:
        monitor_stat, filename, checkpoint_dir: as in `MinSaver`.

    Runs at: setup_graph, before_train, trigger.

    Example:
        >>> MaxSaver("validation_accuracy")
    """

    def __init__(
        self, monitor_stat: str, filename: str | None = None, checkpoint_dir: str | None = None
    ) -> None:
        super().__init__(monitor_stat, reverse=True, filename=filename, checkpoint_dir=checkpoint_dir)
