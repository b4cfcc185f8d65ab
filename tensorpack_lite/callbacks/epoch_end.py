"""The state of a training at the end of an epoch, in a file next to the checkpoint that was saved in this epoch."""

from __future__ import annotations

import copy
from typing import Any, Sequence

import numpy as np

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..tfutils.checkpoint_background import BackgroundSave
from ..tfutils.checkpoint_state import END_SUFFIX, EndState, is_number, pack_end
from ..tfutils.checkpoint_store import CheckpointStore
from ..tfutils.model_utils import static_bytes
from ..tfutils.partitions import join_parts, name_in_files
from ..tfutils.sessinit import SaverRestore
from ..utils import logger
from ..utils.fs import absolute
from ..utils.packed_state import StateTooLargeError

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

    def setup(self, store: CheckpointStore, background: BackgroundSave, variables: Sequence[tf.Variable]) -> None:
        """
        Create the operations, on the rank that writes.

        Args:
            store: the directory of the checkpoints.
            background: the saves in that directory.
            variables: the variables in a checkpoint. If other objects are saved too, no file is written.
        """
        if not all(isinstance(variable, tensorflow.Variable) for variable in variables):
            return
        self._store, self._background = store, background
        self._variables = {var.op.name: var for var in variables if var.shape.num_elements() != 0}
        with tf.name_scope("checksums"):
            self._checksums = {name: _checksum(variable) for name, variable in self._variables.items()}

    def begin(self) -> None:
        """Remember the checkpoint of this step, which is about to be saved, and its variables if the epoch ends with this step."""
        self._saved_at, self._name = self._saver.global_step, None
        loop = self._saver.trainer.loop
        if self._store is not None and loop.num_done == loop.steps_per_epoch:
            self._name, self._saved = f"model-{self._saved_at}", self._run(self._checksums)

    def resume(self) -> None:
        """Do the same for the checkpoint from which training resumes, to end its epoch."""
        if not self._saver.trainer.loop.is_resumed:
            return
        self.begin()
        arguments = self._saver.trainer.arguments
        restored = None if arguments is None else arguments.session_init
        path = absolute(restored.path) if isinstance(restored, SaverRestore) else None
        if self._store is not None and path != absolute(self._store.path(str(self._name))):
            self.skip()  # another saver's, whose variables may differ

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
        changed = [name for name, saved in self._saved.items() if not np.array_equal(saved, checksums[name])]
        wholes = {name_in_files(self._variables[name]) for name in changed}
        changed = [name for name, variable in self._variables.items() if name_in_files(variable) in wholes]
        variables = self._fetch(changed)
        if variables is None:
            _log(f"Callbacks have changed {', '.join(changed)} after {name} was saved.")
            return
        end = copy.deepcopy(EndState(state, variables))  # the callbacks continue before a thread writes it

        def write() -> None:
            try:
                content = pack_end(end, store.path(name))
            except StateTooLargeError:
                _log(f"The state at the end of the epoch of {name} is too large for a file.")
                return
            if content is not None:
                store.write_bytes(f"{name}{END_SUFFIX}", content)

        self._background.follow(write)

    def _fetch(self, names: Sequence[str]) -> dict[str, np.ndarray] | None:
        """Return the values of variables, or None if they are not numbers or do not fit into the file."""
        variables = {name: self._variables[name] for name in names}
        num_bytes = sum(static_bytes(variable) for variable in variables.values())
        if num_bytes > _MAX_BYTES or not all(is_number(var.dtype.base_dtype) for var in variables.values()):
            return None
        values = {name: np.asarray(self._run(variable)) for name, variable in variables.items()}
        is_small = sum(value.nbytes for value in values.values()) <= _MAX_BYTES
        return join_parts(variables.values(), values) if is_small else None

    @staticmethod
    def _run(fetches: Any) -> Any:
        return tf.get_default_session().run(fetches)


def _checksum(variable: tf.Variable) -> tf.Tensor:
    """Return a tensor with the checksum of all elements of a variable, uint8 [1, 8]."""
    device = tf.DeviceSpec.from_string(variable.device)
    cpu = device.replace(device_type="CPU", device_index=0)  # Fingerprint runs nowhere else
    with tf.device(variable.device):
        value = tf.identity(variable)
    with tf.device(cpu.to_string()):
        return tf.raw_ops.Fingerprint(data=tf.reshape(value, [1, -1]), method="farmhash64")


def _log(reason: str) -> None:
    logger.info(f"{reason} A training that resumes there calls the callbacks behind the saver again.")
