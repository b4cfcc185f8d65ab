"""The state of a training at the end of an epoch, in a file beside the checkpoint that was saved in this epoch."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.checkpoint_background import BackgroundSave
from ..tfutils.checkpoint_state import END_SUFFIX, EndState, pack_end
from ..tfutils.checkpoint_store import CheckpointStore
from ..utils import logger

__all__ = ["EpochEnd"]

_MAX_BYTES = 16 << 20


class EpochEnd:
    """
    Writer of `model-<step>.end`, which lets a resumed training begin with the next epoch.

    A checkpoint is saved while the callbacks of an epoch are called. Those behind the saver may change variables, so the file has
    the values of variables that differ from the checkpoint. Checksums, which the graph computes, find these variables. If their
    values are too large for such a file, it is not written, and a resumed training calls the callbacks again.

    Args:
        saver: the callback that saves the checkpoints.
    """

    def __init__(self, saver: Callback) -> None:
        self._saver = saver
        self._saved_at = -1  # the step; all ranks know it
        self._name: str | None = None  # the checkpoint, on the rank that writes it
        self._store: CheckpointStore | None = None
        self._variables: dict[str, tf.Variable] = {}
        self._saved: dict[str, np.ndarray] = {}

    def setup(
        self, store: CheckpointStore, background: BackgroundSave, variables: Sequence[tf.Variable]
    ) -> None:
        """
        Create the operations, on the rank that writes.

        Args:
            store: the directory of the checkpoints.
            background: the saves in that directory.
            variables: the variables in a checkpoint.
        """
        self._store, self._background = store, background
        self._variables = {variable.op.name: variable for variable in variables}
        with tf.name_scope("checksums"):
            self._checksums = {name: _checksum(variable) for name, variable in self._variables.items()}

    def begin(self) -> None:
        """Remember the checkpoint of this step, which is about to be saved, and its variables if the epoch ends with this step."""
        self._saved_at, self._name = self._saver.global_step, None
        if self._store is not None and self._saver.local_step == self._saver.trainer.steps_per_epoch - 1:
            self._name, self._saved = f"model-{self._saved_at}", self._run(self._checksums)

    def resume(self) -> None:
        """Do the same for the checkpoint from which training resumes, to end its epoch."""
        if not self._saver.trainer.loop.is_resumed:
            return
        self.begin()
        if self._store is not None and self._store.latest() != self._name:
            self.skip()

    def skip(self) -> None:
        """Forget the checkpoint, because it is not saved."""
        self._name = None

    def end(self) -> None:
        """
        Write the file once the checkpoint is in place. All ranks call this when all callbacks of an epoch have been called.

        Raises:
            OSError: the file cannot be written. After an asynchronous save, `BackgroundSave.wait` raises it.
        """
        if self._saved_at != self._saver.global_step:
            return
        state = self._saver.trainer.state_dict()
        store, name, self._name = self._store, self._name, None
        if store is None or name is None:
            return
        checksums = self._run(self._checksums)
        changed = [one for one, saved in self._saved.items() if not np.array_equal(saved, checksums[one])]
        if not _fit([self._variables[one] for one in changed]):
            what = f"Callbacks have changed {', '.join(changed)} after {name} was saved."
            logger.info(f"{what} A training that resumes there calls them again.")
            return
        variables = {one: np.asarray(self._run(self._variables[one])) for one in changed}

        def write() -> None:
            content = pack_end(EndState(state, variables), store.path(name))
            if content is not None:
                store.write_bytes(f"{name}{END_SUFFIX}", content)

        self._background.follow(write)

    @staticmethod
    def _run(fetches: Any) -> Any:
        return tf.get_default_session().run(fetches)


def _checksum(variable: tf.Variable) -> tf.Tensor:
    """Return a tensor with the checksum of all elements of a variable, uint8 [1, 8]."""
    with tf.device(variable.device):
        return tf.raw_ops.Fingerprint(
            data=tf.reshape(variable, tf.stack([1, tf.size(variable)])), method="farmhash64"
        )


def _fit(variables: Sequence[tf.Variable]) -> bool:
    """Return whether the values of variables are numbers that fit into a state file."""
    dtypes = [variable.dtype.base_dtype for variable in variables]
    sizes = [(one.shape.num_elements() or 0) * dtype.size for one, dtype in zip(variables, dtypes)]
    are_numbers = all(
        (dtype.is_floating or dtype.is_integer or dtype.is_bool) and dtype != tf.bfloat16 for dtype in dtypes
    )
    return are_numbers and sum(sizes) <= _MAX_BYTES
