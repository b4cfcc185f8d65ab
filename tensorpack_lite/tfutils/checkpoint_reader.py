"""Readers of checkpoints and of the file `checkpoint`, with one error type for damaged files."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import weakref
from contextlib import contextmanager
from typing import Any, Iterator

import numpy as np

from ..compat import tfv1 as tf
from ..utils.errors import DamagedFileError, parsing
from .common import get_op_tensor_name

STATE_FILE = "checkpoint"

_ADVICE = "Use an earlier checkpoint, or copy this one again."
_PATTERN = re.compile(r"[\[\]\\]")  # `*` and `?` match themselves
_DAMAGED = (tf.errors.DataLossError, tf.errors.OutOfRangeError, tf.errors.NotFoundError)


def is_pattern(path: str) -> bool:
    """Return whether TensorFlow's readers of checkpoints take a path for a pattern that does not match itself."""
    return _PATTERN.search(path) is not None


class LiteralPath:
    """
    The path of a checkpoint for TensorFlow's readers, which take the path for a pattern, so brackets and backslashes match other names.

    Args:
        path: the checkpoint, without suffix.

    Attributes:
        path: the same path if it has none of these characters; otherwise that of symbolic links to the files of the
            checkpoint, in a temporary directory, which exists as long as this object.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        if "://" in path or not is_pattern(path):
            return
        directory, name = os.path.split(os.path.abspath(path))
        links = tempfile.mkdtemp(prefix="checkpoint-")
        weakref.finalize(self, shutil.rmtree, links, ignore_errors=True)
        self.path = os.path.join(links, "checkpoint")
        for file in os.listdir(directory):
            if file == name or file.startswith(f"{name}."):
                os.symlink(os.path.join(directory, file), self.path + file[len(name) :])


class CheckpointReader:
    """
    Reader of one checkpoint. It verifies checksums.

    Args:
        path: the checkpoint, without suffix.

    Attributes:
        shapes: `{key: shape}`.
        dtypes: `{key: tf.DType}`.

    Raises:
        DamagedFileError: the checkpoint is damaged or one of its files is missing. `read` raises it too.
        PermissionError: the index is not readable.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        _require_readable(f"{path}.index")
        with parsing(path, "a checkpoint", _ADVICE):
            self._literal = LiteralPath(path)  # its links are needed by each read
            self._reader = tf.train.NewCheckpointReader(self._literal.path)
            shapes = self._reader.get_variable_to_shape_map()
            self.shapes = {key: tuple(shape) for key, shape in shapes.items()}
            self.dtypes = dict(self._reader.get_variable_to_dtype_map())

    def key_of(self, name: str) -> str | None:
        """Return the key of a variable, given its name with or without `:0`, or None if the checkpoint does not have it."""
        return next((key for key in get_op_tensor_name(name) if key in self.shapes), None)

    def read(self, key: str) -> np.ndarray:
        """Read one array."""
        with parsing(self._path, "a checkpoint", _ADVICE):
            return self._reader.get_tensor(key)


class CheckpointReaderAdapter:
    """
    Reader of a checkpoint that accepts names with and without `:0`. Scripts import it from `tfutils.sessinit`.

    Args:
        reader: the result of `tf.train.NewCheckpointReader(path)`.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        shapes = reader.get_variable_to_shape_map()
        self._keys = {get_op_tensor_name(key)[1]: key for key in shapes}
        self._shapes = {name: shapes[key] for name, key in self._keys.items()}

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return `{name with ":0": shape}`."""
        return self._shapes

    def get_tensor(self, name: str) -> np.ndarray:
        """
        Read one array.

        Raises:
            KeyError: the checkpoint does not have it.
        """
        return self._reader.get_tensor(self.get_real_name(name))

    def has_tensor(self, name: str) -> bool:
        """Return whether the checkpoint has an array, given its name with or without `:0`."""
        return get_op_tensor_name(name)[1] in self._keys

    def get_real_name(self, name: str) -> str:
        """
        Return the name as it is in the checkpoint.

        Raises:
            KeyError: the checkpoint does not have it.
        """
        if not self.has_tensor(name):
            raise KeyError(
                f"CheckpointReaderAdapter: the checkpoint has no '{name}'. It has: {', '.join(sorted(self._keys))}."
            )
        return self._keys[get_op_tensor_name(name)[1]]


@contextmanager
def restoring(path: str) -> Iterator[None]:
    """
    Turn TensorFlow's errors about a damaged checkpoint into a DamagedFileError, while a session restores it.

    Args:
        path: the checkpoint, without suffix.

    Raises:
        DamagedFileError: the checkpoint is damaged or one of its files is missing. Other errors are not changed.
    """
    try:
        yield
    except _DAMAGED as error:
        raise DamagedFileError(f"{path} cannot be read as a checkpoint: {reason_of(error)}. {_ADVICE}") from error


def read_checkpoint_state(directory: str) -> Any:
    """
    Read the file `checkpoint`, TensorFlow's list of the checkpoints in a directory.

    Args:
        directory: the directory.

    Returns:
        A `CheckpointState` with `model_checkpoint_path`, or None if the file does not exist.

    Raises:
        DamagedFileError: the file is damaged.
    """
    path = f"{directory.rstrip('/')}/{STATE_FILE}"
    if not tf.gfile.Exists(path):
        return None
    _require_readable(path)
    with parsing(path, "a list of checkpoints", "Name the checkpoint itself, or delete this file."):
        state = tf.train.get_checkpoint_state(directory)
        if state is None:  # TensorFlow only logs a warning
            raise ValueError("it is not in the text format of CheckpointState")
    return state


def reason_of(error: tf.errors.OpError) -> str:
    """Return the first line of a TensorFlow error's message that is not about the place in the graph or the cluster."""
    lines = str(error.message).splitlines()
    reasons = [
        line
        for line in lines
        if line.strip() and not re.match(r"\s|Graph execution|Detected at|Node:|From /job:\S+:$", line)
    ]
    return reasons[0] if reasons else str(error.message)


def _require_readable(path: str) -> None:
    """Raise PermissionError if a file is not readable. TensorFlow would report it as damaged."""
    try:
        if tf.gfile.Exists(path):
            with tf.gfile.GFile(path, "rb") as file:
                file.read(1)
    except tf.errors.PermissionDeniedError as error:
        raise PermissionError(errno.EACCES, "Permission denied", path) from error
