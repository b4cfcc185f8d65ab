"""Callbacks that save checkpoints at regular times; `best_saver.py` has those that keep the best ones."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.checkpoint_background import VariableWriter, background_save
from ..tfutils.checkpoint_state import STATE_SUFFIX, write_state
from ..tfutils.checkpoint_store import CheckpointStore
from ..utils import logger
from ..utils.checks import check_at_least, check_choice
from ..utils.memory import available_memory
from ..utils.packed_state import pack_state
from .best_saver import MaxSaver as MaxSaver
from .best_saver import MinSaver as MinSaver
from .directories import find_checkpoint_dir, need_checkpoint_dir
from .epoch_end import EpochEnd

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
        checkpoint_dir: the directory; created if it is missing. None means the logger's directory when training starts.
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
        checkpoint_dir: the directory; None before `setup_graph` if none was given.
        saver: the `tf.train.Saver`, available from `setup_graph` on; also in the collection `SAVERS`.
        variables: the variables to save, from `setup_graph` on; empty on ranks that do not write.
        epoch_end: what the trainer calls at the end of an epoch.

    Runs at: setup_graph, before_train, trigger, after_train.

    Difference from tensorpack: tensorpack 0.11 logs disk errors and continues, and never removes checkpoints from before
    a resume. Here a disk error ends training, and `max_to_keep` counts all checkpoints listed in `checkpoint`.
    """

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
        self.max_to_keep = int(check_at_least("ModelSaver: max_to_keep", max_to_keep or 0, 0))
        self._secs_between_kept = keep_checkpoint_every_n_hours * 3600
        self._next_to_keep = time.monotonic() + self._secs_between_kept
        self._lasting: set[str] = set()  # checkpoints that are never removed
        self._given_dir = find_checkpoint_dir(checkpoint_dir) if checkpoint_dir else None
        self.checkpoint_dir = self._given_dir
        self.saver: tf.train.Saver = None
        self._asynchronous = asynchronous
        self._skips = busy == "skip"
        self._fsync = fsync
        self._has_warned = False
        self.epoch_end = EpochEnd(self)
        self.variables: list[tf.Variable] = []

    def _setup_graph(self) -> None:
        self._is_writer = self.trainer.is_chief
        self.checkpoint_dir = self._given_dir or find_checkpoint_dir(None)
        if not self._is_writer:
            return
        self._store = CheckpointStore(need_checkpoint_dir(self.checkpoint_dir, "ModelSaver"), "ModelSaver")
        self._store.fsync = self._fsync
        self.checkpoint_dir = self._store.directory
        self._background = background_save(self.checkpoint_dir)
        self._background.fsync = self._fsync
        self._background.has_saver = True
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
        if time.monotonic() > self._next_to_keep and name not in self._lasting:
            self._begin_period()
            self._lasting.add(name)
        if self._asynchronous and self._has_memory():
            self._start_saving(name)
        else:
            self._save(name, self._write)

    def _begin_period(self) -> None:
        """Begin the next period of `keep_checkpoint_every_n_hours`. Periods without a checkpoint are omitted."""
        seconds, now = self._secs_between_kept, time.monotonic()
        late = (now - self._next_to_keep) % seconds if seconds > 0 else 0.0
        self._next_to_keep = now - late + seconds

    def _after_train(self) -> None:
        self.wait()

    @property
    def latest(self) -> str | None:
        """The path of the latest complete checkpoint in the directory, or None. Only the chief knows it, from `setup_graph` on."""
        name = self._store.latest() if self._is_writer else None
        return None if name is None else self._store.path(name)

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
        self._store.record(name, self.max_to_keep, self._lasting.__contains__)
        logger.info("Model saved to %s.", logger.shown_path(self._store.path(name)))

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
        return {"lasting": sorted(self._lasting), "seconds_left": self._next_to_keep - time.monotonic()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the period of `keep_checkpoint_every_n_hours`."""
        self._lasting = set(state["lasting"])
        self._next_to_keep = time.monotonic() + state["seconds_left"]
