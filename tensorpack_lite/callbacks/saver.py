"""Callbacks that save checkpoints: at regular times, and of the best model so far."""

from __future__ import annotations

import json
import math
import os
import re
import time
from datetime import datetime
from typing import Any, Callable, Sequence, TypeVar

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.checkpoint_background import VariableWriter, background_save
from ..tfutils.checkpoint_state import STATE_SUFFIX, write_state
from ..tfutils.checkpoint_store import CheckpointStore
from ..utils import logger
from ..utils.checks import check_at_least, check_choice
from ..utils.errors import DamagedFileError, parsing
from ..utils.memory import available_memory
from ..utils.old_names import old_arguments
from ..utils.packed_state import pack_state
from .directories import find_checkpoint_dir, need_checkpoint_dir
from .epoch_end import EpochEnd
from .statistic_reader import StatisticReader

__all__ = ["MaxSaver", "MinSaver", "ModelSaver"]

T = TypeVar("T")

# TensorFlow writes a meta graph to a file with such a name, then renames it.
_TEMPORARY = r"\.checkpoint\.tmp|\.model-\d+\.end\.tmp|graph-\d{4}-\d{6}\.meta\.tmp[0-9a-f]{32}"


class ModelSaver(Callback):
    """
    Callback that saves the model at each trigger, as `model-<global_step>`, and the graph once, as
    `graph-<MMDD-HHMMSS>.meta`.

    A checkpoint is complete or absent: it is written to a temporary file, read back, moved into place, and only then listed
    in the file `checkpoint`. The names in that file are relative, so the directory can be moved. Temporary files of a killed
    training are removed before training. With `exact` and several ranks, trigger it at the same steps on all ranks, which send
    their states to the chief.

    The file `model-<global_step>.state` holds the place in the training (epoch, step, and which callbacks have been called,
    including this one) and the callbacks' `state_dict()`. `AutoResumeTrainConfig` continues from there. When all callbacks of the
    epoch have been called, `model-<global_step>.end` gets the same, and training continues with the next epoch.

    Args:
        max_to_keep: number of checkpoints to keep; older ones are removed. None or 0 keeps all.
        keep_checkpoint_every_n_hours: of the checkpoints to remove, keep one for each such period of training time.
        checkpoint_dir: the directory; created if it is missing. None means the logger's directory.
        var_collections: a collection, or a list of collections, of the variables to save, as they are when this callback
            sets up. None means `GLOBAL_VARIABLES`.
        asynchronous: write checkpoints in a thread, with the same bytes. Training waits only until the variables are copied,
            which needs memory for one more copy; if that is above half of the available memory, it waits for the file.
            Callbacks that copy a checkpoint, such as `MinSaver`, and the next save also wait for the file.
        busy: what an asynchronous save does while the previous one is being written: "wait" for it, or "skip" this save.
        fsync: flush the files to the disk before they are listed, so that the list never names a checkpoint that a crash of
            the machine has damaged. `MinSaver`, `MaxSaver` and `TopKSaver` with the same directory do the same.

    Raises:
        TypeError: `max_to_keep` is not a number.
        ValueError: `max_to_keep` is negative, or `busy` is unknown.
        RuntimeError: in `setup_graph`: there is no directory.
        OSError: a file cannot be written; earlier checkpoints stay intact. The error of an asynchronous save is raised by the
            next trigger of this callback or of one that copies checkpoints, at the latest in `after_train`.

    Attributes:
        checkpoint_dir: the directory, or None.
        saver: the `tf.train.Saver`, available from `setup_graph` on; also in the collection `SAVERS`.
        variables: the variables to save, from `setup_graph` on; empty on ranks that do not write.
        epoch_end: what the trainer calls at the end of an epoch.

    Runs at: setup_graph, before_train, trigger, after_train.

    Difference from tensorpack: tensorpack 0.11 logs disk errors and continues, and never removes checkpoints from before
    a resume. Here a disk error ends training, and `max_to_keep` counts all checkpoints listed in `checkpoint`.
    """

    @old_arguments(keep_recent="max_to_keep", keep_freq="keep_checkpoint_every_n_hours")
    def __init__(
        self,
        max_to_keep: int | None = 10,
        keep_checkpoint_every_n_hours: float = 0.5,
        checkpoint_dir: str | None = None,
        var_collections: str | Sequence[str] | None = None,
        *,
        asynchronous: bool = False,
        busy: str = "wait",
        fsync: bool = True,
    ) -> None:
        check_choice("ModelSaver: busy", busy, ("wait", "skip"))
        keys = tf.GraphKeys.GLOBAL_VARIABLES if var_collections is None else var_collections
        self._var_collections = [keys] if isinstance(keys, str) else list(keys)
        self._max_to_keep = int(check_at_least("ModelSaver: max_to_keep", max_to_keep or 0, 0))
        self._secs_between_kept = keep_checkpoint_every_n_hours * 3600
        self._next_to_keep = time.time() + self._secs_between_kept
        self._lasting: set[str] = set()  # checkpoints that are never removed
        self.checkpoint_dir = find_checkpoint_dir(checkpoint_dir)
        self.saver: tf.train.Saver = None
        self._asynchronous = asynchronous
        self._skips = busy == "skip"
        self._fsync = fsync
        self._has_warned = False
        self.epoch_end = EpochEnd(self)
        self.variables: list[tf.Variable] = []

    def _setup_graph(self) -> None:
        self._is_writer = self.trainer.is_chief
        if not self._is_writer:
            return
        self._store = CheckpointStore(need_checkpoint_dir(self.checkpoint_dir, "ModelSaver"), "ModelSaver")
        self._store.fsync = self._fsync
        self.checkpoint_dir = self._store.directory
        self._background = background_save(self.checkpoint_dir)
        self._background.fsync = self._fsync
        found = [var for key in self._var_collections for var in tf.get_collection(key)]
        self.variables = list({id(var): var for var in found}.values())
        # The store removes old checkpoints, so the Saver must keep all.
        self.saver = tf.train.Saver(self.variables, max_to_keep=None, save_relative_paths=True)
        tf.add_to_collection(tf.GraphKeys.SAVERS, self.saver)
        self.epoch_end.setup(self._store, self._background, self.variables)
        if self._asynchronous:
            self._writer = VariableWriter(self.saver)

    def _before_train(self) -> None:
        self.epoch_end.resume()
        if not self._is_writer:
            return
        self._background.wait()
        self._store.remove_leftovers(r"model-\d+", _TEMPORARY)
        name = f"graph-{datetime.now().strftime('%m%d-%H%M%S')}.meta"
        keys = self.graph.get_all_collection_keys()
        try:
            self.saver.export_meta_graph(os.path.join(self._store.directory, name), collection_list=keys)
        except tf.errors.OpError as error:
            raise OSError(f"ModelSaver: cannot write '{self._store.path(name)}': {error.message}.") from error
        self._store.adopt_listed()
        if self._asynchronous:
            megabytes = self._writer.num_bytes / 2**20
            logger.info(f"ModelSaver: saving while training continues needs {megabytes:.0f} MB.")

    def _trigger(self) -> None:
        self.epoch_end.begin()
        if not self._is_writer:
            self.trainer.state_dict()  # sends the state to the chief
            return
        name = f"model-{self.global_step}"
        if self._skips and self._background.is_running:
            logger.info("ModelSaver: %s is skipped, because the previous one is still being written.", name)
            self.epoch_end.skip()
            if self.trainer.size > 1:
                self.trainer.state_dict()  # the other ranks send their states
            return
        self._background.wait()
        if time.time() > self._next_to_keep and name not in self._lasting:
            self._next_to_keep += self._secs_between_kept
            self._lasting.add(name)
        if self._asynchronous and self._has_memory():
            self._start_saving(name)
        else:
            self._save(name, self._write)

    def _after_train(self) -> None:
        self.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait until an asynchronous save is finished. With `busy="skip"`, call it before `trigger`, too, if you need this save.

        Args:
            timeout: seconds to wait; None means no limit.

        Returns:
            Whether the last checkpoint is complete and listed. True if no save is in progress.

        Raises:
            OSError: the checkpoint cannot be written.
        """
        return not self._is_writer or self._background.wait(timeout)

    def _start_saving(self, name: str) -> None:
        """Copy the variables and the state, and let a thread write them."""
        arrays = self._writer.fetch(tf.get_default_session())
        state = pack_state(self.trainer.state_dict(), name)

        def write(prefix: str) -> None:
            self._writer.write(prefix, arrays)
            write_state(prefix + STATE_SUFFIX, state)

        self._background.start(lambda: self._save(name, write, self._writer.read_back))

    def _save(
        self, name: str, write: Callable[[str], object], read_back: Callable[[str], object] | None = None
    ) -> None:
        self._store.save(name, write, read_back)
        self._store.record(name, self._max_to_keep, self._lasting.__contains__)
        logger.info("Model saved to %s.", self._store.path(name))

    def _write(self, prefix: str) -> None:
        self.saver.save(tf.get_default_session(), prefix, write_meta_graph=False, write_state=False)
        write_state(prefix + STATE_SUFFIX, self.trainer.state_dict())

    def _has_memory(self) -> bool:
        needed, available = self._writer.num_bytes, available_memory()
        if needed > available / 2 and not self._has_warned:
            self._has_warned = True
            logger.warning(
                f"ModelSaver: training waits until checkpoints are written, because saving meanwhile needs {needed >> 20} MB, "
                f"more than half of the available {int(available) >> 20} MB."
            )
        return needed <= available / 2

    def state_dict(self) -> dict[str, Any] | None:
        """Return which checkpoints are never removed, and the seconds until the next one is kept."""
        return {"lasting": sorted(self._lasting), "seconds_left": self._next_to_keep - time.time()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the period of `keep_checkpoint_every_n_hours`."""
        self._lasting = set(state["lasting"])
        self._next_to_keep = time.time() + state["seconds_left"]


class MinSaver(Callback):
    """
    Callback that keeps a copy of the checkpoint with the smallest value of a statistic, as `min-<statistic>`.

    At each trigger, the files of the latest checkpoint are copied if the newest value of the statistic is the best so far
    and both are of the same step. So put this callback after the `ModelSaver` and the callback that reports the statistic, and
    trigger it together with them. A checkpoint keeps the best value. It is also stored in `min-<statistic>.json`, for a training
    that resumes from a checkpoint without it; a training that starts at step 0 ignores the file.

    Args:
        monitor_stat: a scalar of `trainer.monitors`.
        reverse: keep the largest value instead, as `max-<statistic>`.
        filename: name of the copy; None means the name above, with "-" for each "/" in the statistic's name.
        checkpoint_dir: the directory of the `ModelSaver`. None means the logger's directory.
        strict: raise a KeyError, which ends training, at the end of the first epoch in which this callback is triggered, if the
            statistic has not been reported, e.g. because it is misspelt. A callback that may report it later, such as one inside
            a PeriodicTrigger, delays the error. False logs a warning at each trigger.

    Raises:
        TypeError: `monitor_stat` is not a string.
        ValueError: `filename` is a path.
        KeyError: at the end of an epoch, see `strict`.
        RuntimeError: in `setup_graph`: there is no directory; at a trigger: it holds no checkpoint.
        OSError: the copy cannot be written; the previous copy stays intact.

    Attributes:
        best: `(step, value)` of the copy, or None.

    Runs at: setup_graph, before_train, trigger.

    Example:
        >>> MinSaver("validation_error")

    Difference from tensorpack: tensorpack 0.11 forgets the best value when training resumes, and ignores a statistic that
    was never reported.
    """

    def __init__(
        self,
        monitor_stat: str,
        reverse: bool = False,
        filename: str | None = None,
        checkpoint_dir: str | None = None,
        *,
        strict: bool = True,
    ) -> None:
        if filename is not None and os.path.basename(filename) != filename:
            raise ValueError(
                f"{type(self).__name__}: filename is a path (expected a name inside checkpoint_dir, got '{filename}')."
            )
        self._reader = StatisticReader(self, monitor_stat, strict)
        self.monitor_stat = monitor_stat
        self.reverse = reverse
        self._filename = filename or f"{'max' if reverse else 'min'}-{monitor_stat.replace('/', '-')}"
        self.checkpoint_dir = find_checkpoint_dir(checkpoint_dir)
        self.best: tuple[int, float] | None = None

    def _setup_graph(self) -> None:
        who = type(self).__name__
        self._store = CheckpointStore(need_checkpoint_dir(self.checkpoint_dir, who), who)
        self.checkpoint_dir = self._store.directory
        self._background = background_save(self.checkpoint_dir)

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
        if checkpoint is None:
            raise RuntimeError(
                f"{self}: no checkpoint to copy in '{self.checkpoint_dir}'. Put a ModelSaver with the same directory before "
                "this callback."
            )
        match = re.fullmatch(r"model-(\d+)", checkpoint)
        if match is None or int(match.group(1)) != step:
            logger.warning(
                f"{self}: '{self.monitor_stat}' is best at step {step}, but the latest checkpoint is {checkpoint}, so there is "
                "nothing to copy. Trigger ModelSaver at the same times."
            )
            return
        self._copy(checkpoint, step, value)

    def _worst_kept(self) -> tuple[int, float] | None:
        """Return the step and value of the copy that the next one replaces, or None."""
        return self.best

    def _copy(self, checkpoint: str, step: int, value: float) -> None:
        record = json.dumps({"stat": self.monitor_stat, "step": step, "value": value})
        self._store.copy(checkpoint, self._filename, {f"{self._filename}.json": record})
        self.best = (step, value)
        best = f"{'maximum' if self.reverse else 'minimum'} '{self.monitor_stat}' = {value:.5g}"
        logger.info(f"Model at step {step} with {best} saved to {self._store.path(self._filename)}.")

    def _read_record(self) -> tuple[int, float] | None:
        """Read the best value of an earlier training, if this training continues it."""
        best = self._parse_record(lambda record: (int(record["step"]), float(record["value"])))
        if best is None or not self._store.files(self._filename):
            return None
        if self.global_step == 0:
            logger.warning(
                f"{self}: training starts at step 0, the best value of an earlier training is ignored."
            )
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


class MaxSaver(MinSaver):
    """
    Callback that keeps a copy of the checkpoint with the largest value of a statistic, as `max-<statistic>`; see `MinSaver`.

    Args:
        monitor_stat, filename, checkpoint_dir, strict: as in `MinSaver`.

    Runs at: setup_graph, before_train, trigger.

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
    ) -> None:
        super().__init__(monitor_stat, True, filename, checkpoint_dir, strict=strict)
