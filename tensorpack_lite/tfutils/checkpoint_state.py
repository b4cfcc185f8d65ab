"""The file `model-<step>.state` of a checkpoint; `utils/packed_state.py` describes its content."""

from __future__ import annotations

from typing import Any

from ..compat import tfv1 as tf
from ..utils.packed_state import MAX_STATE_BYTES, StateFile, pack_state, unpack_state

__all__ = ["STATE_SUFFIX", "read_state", "read_state_file", "write_state"]

STATE_SUFFIX = ".state"


def write_state(path: str, state: dict[str, object] | bytes) -> None:
    """
    Write a state file.

    Args:
        path: the file, on any file system that TensorFlow supports.
        state: a state, or the result of `pack_state`.

    Raises:
        TypeError, ValueError: as `pack_state`.
        tf.errors.OpError: the file cannot be written.
    """
    content = state if isinstance(state, bytes) else pack_state(state, path)
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content)


def read_state(path: str) -> dict[str, Any] | None:
    """
    Read the state in a state file.

    Args:
        path: the file.

    Returns:
        The state, or None if the file does not exist.

    Raises:
        DamagedFileError: the file is damaged.
        ValueError: a newer version of the library wrote the file.
    """
    file = read_state_file(path)
    return None if file is None else file.state


def read_state_file(path: str) -> StateFile | None:
    """
    Read a state file, of this or an earlier format.

    Args:
        path: the file.

    Returns:
        Its content, or None if the file does not exist.

    Raises:
        DamagedFileError: the file is damaged.
        ValueError: a newer version of the library wrote the file.
    """
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read(MAX_STATE_BYTES + 1)
    return unpack_state(content, path)
