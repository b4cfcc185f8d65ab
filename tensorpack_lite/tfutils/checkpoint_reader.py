"""Reading of checkpoints and of the file `checkpoint`, with one error type for damaged ones."""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager
from typing import Any, Iterator

import numpy as np

from ..compat import tfv1 as tf
from ..utils.errors import DamagedFileError, parsing
from .common import get_op_tensor_name

__all__ = ["STATE_FILE", "CheckpointReader", "read_checkpoint_state", "restoring", "told_reason"]

STATE_FILE = "checkpoint"

_ADVICE = "Use an earlier checkpoint, or copy this one again."
_DAMAGED = (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.NotFoundError)


class CheckpointReader:
    """
    A checkpoint for reading: its keys, whether or not they end in `:0`. Checksums are compared.

    Args:
        path: of the checkpoint, without suffix.

    Attributes:
        shapes: `{key: shape}`.

    Raises:
        DamagedFileError: here and in `read`, the checkpoint is damaged, or a file of it is missing.
        PermissionError: its index may not be read.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        _require_readable(f"{path}.index")
        with parsing(path, "a checkpoint", _ADVICE):
            self._reader = tf.train.NewCheckpointReader(path)
            shapes = self._reader.get_variable_to_shape_map()
            self.shapes = {key: tuple(shape) for key, shape in shapes.items()}

    def key_of(self, name: str) -> str | None:
        """Find a variable, by its name with or without `:0`; None if it is not there."""
        return next((key for key in get_op_tensor_name(name) if key in self.shapes), None)

    def read(self, key: str) -> np.ndarray:
        """Read one array."""
        with parsing(self._path, "a checkpoint", _ADVICE):
            return self._reader.get_tensor(key)


@contextmanager
def restoring(path: str) -> Iterator[None]:
    """
    Turn TensorFlow's errors for a damaged checkpoint, raised while a session restores it, into a DamagedFileError.

    Args:
        path: of the checkpoint, without suffix.

    Raises:
        DamagedFileError: the checkpoint is damaged, or a file of it is missing. Other errors pass through.
    """
    try:
        yield
    except _DAMAGED as error:
        raise DamagedFileError(
            f"{path} cannot be read as a checkpoint: {told_reason(error)}. {_ADVICE}"
        ) from error


def read_checkpoint_state(directory: str) -> Any:
    """
    Read the file `checkpoint` of a directory, TensorFlow's list of its checkpoints.

    Args:
        directory: of the checkpoints.

    Returns:
        A `CheckpointState`, with `model_checkpoint_path`; None if there is no such file.

    Raises:
        DamagedFileError: the file is damaged.
    """
    path = f"{directory.rstrip('/')}/{STATE_FILE}"
    if not tf.gfile.Exists(path):
        return None
    _require_readable(path)
    with parsing(path, "a list of checkpoints", "Name the checkpoint itself, or delete this file."):
        state = tf.train.get_checkpoint_state(directory)
        if state is None:  # after a warning of TensorFlow's
            raise ValueError("it is not in the text format of CheckpointState")
    return state


def told_reason(error: Any) -> str:
    """Find the one line of TensorFlow's message that is not about where in the graph it happened."""
    lines = str(error.message).splitlines()
    told = [
        line for line in lines if line.strip() and not re.match(r"\s|Graph execution|Detected at|Node:", line)
    ]
    return told[0] if told else str(error.message)


def _require_readable(path: str) -> None:
    """Raise PermissionError for a file that may not be read, which TensorFlow reports as damaged."""
    try:
        if tf.gfile.Exists(path):
            with tf.gfile.GFile(path, "rb") as file:
                file.read(1)
    except tf.errors.PermissionDeniedError as error:
        raise PermissionError(errno.EACCES, "Permission denied", path) from error
