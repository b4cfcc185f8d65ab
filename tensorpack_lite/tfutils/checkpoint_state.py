"""
The files of a checkpoint that hold the state of the training; `utils/packed_state.py` describes their format.

`model-<step>.state` is the state in which the checkpoint was saved. `model-<step>.end` is the state at the end of that epoch, after
all of its callbacks were called, with the variables that they had changed. It belongs to one checkpoint only, which it identifies.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, NamedTuple

import numpy as np

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.packed_state import MAX_STATE_BYTES, StateFile, pack_state, unpack_state

STATE_SUFFIX = ".state"
END_SUFFIX = ".end"


class EndState(NamedTuple):
    """
    The training at the end of an epoch.

    Attributes:
        state: as in a state file.
        variables: the values of those that differ from the checkpoint, by their names without `:0`.
    """

    state: Dict[str, Any]
    variables: Dict[str, np.ndarray]


def is_number(dtype: tf.DType) -> bool:
    """Return whether a state file can hold values of a type."""
    return bool((dtype.is_floating or dtype.is_integer or dtype.is_bool) and dtype != tf.bfloat16)


def pack_end(end: EndState, prefix: str) -> bytes | None:
    """
    Return the content of `model-<step>.end`.

    Args:
        end: the training now.
        prefix: the checkpoint, which exists.

    Returns:
        The bytes; None if there is no such checkpoint.

    Raises:
        TypeError, ValueError: as `pack_state`.
    """
    checkpoint = _identify(prefix)
    return None if checkpoint is None else pack_state({**end._asdict(), "checkpoint": checkpoint}, prefix)


def read_end(prefix: str) -> EndState | None:
    """
    Return the state at the end of the epoch in which a checkpoint was saved.

    Args:
        prefix: the checkpoint.

    Returns:
        The state. None if it was not written, or belongs to another checkpoint of that name; or, with a warning, if it
        cannot be read. The checkpoint itself can be used in each case.
    """
    try:
        record = read_state(prefix + END_SUFFIX)
        if record is None or record.get("checkpoint") != _identify(prefix):
            return None
        return EndState(dict(record["state"]), dict(record["variables"]))
    except (ValueError, KeyError, TypeError) as error:
        logger.warning(f"{prefix}{END_SUFFIX} is ignored: {error}")
        return None


def _identify(prefix: str) -> str | None:
    """Return a checksum of the files that have the state, and the checksums of all variables; None if one is missing."""
    digest = hashlib.sha256()
    for suffix in (".index", STATE_SUFFIX):
        if not tf.io.gfile.exists(prefix + suffix):
            return None
        with tf.io.gfile.GFile(prefix + suffix, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


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
