"""
The file `model-<step>.state` of a checkpoint: what a training keeps beside its variables.

The file is a ZIP archive with one member, `state.json`, whose checksum is compared when it is read. It holds the number of the
format, the version of the library that wrote it, and the state: JSON values. Nothing in it is executed.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from .._version import __version__
from ..compat import tfv1 as tf
from ..utils.errors import DamagedFileError, parsing

__all__ = ["STATE_SUFFIX", "read_state", "write_state"]

STATE_SUFFIX = ".state"
_FORMAT = 1
_MEMBER = "state.json"
_MAX_BYTES = 64 << 20
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that a ZIP archive holds: equal states are equal files
_WHAT = "the state of a checkpoint"
_ADVICE = "Remove it to continue with the variables of the checkpoint and the epoch that stats.json gives."


def write_state(path: str, state: dict[str, Any]) -> None:
    """
    Write a state file.

    Args:
        path: the file; anything that TensorFlow's file system knows.
        state: None, booleans, numbers and strings, in lists and in dicts whose keys are strings.

    Raises:
        TypeError: the state holds something else.
        ValueError: the state is larger than 64 MB.
        tf.errors.OpError: the file cannot be written.
    """
    try:
        text = json.dumps({"format": _FORMAT, "version": __version__, "state": state})
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"write_state: '{path}' cannot hold the state: {error}. state_dict() of a callback returns None, booleans, numbers, "
            "strings, lists and dicts."
        ) from error
    if len(text) > _MAX_BYTES:
        raise ValueError(
            f"write_state: the state for '{path}' has {len(text)} bytes (expected at most {_MAX_BYTES}). "
            "Return less from state_dict()."
        )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        member = zipfile.ZipInfo(_MEMBER, _DATE)
        member.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(member, text)
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content.getvalue())


def read_state(path: str) -> dict[str, Any] | None:
    """
    Read a state file.

    Args:
        path: the file.

    Returns:
        The state; None if there is no such file.

    Raises:
        DamagedFileError: the file is damaged.
        ValueError: a newer version of the library wrote the file.
    """
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read(_MAX_BYTES + 1)
    with parsing(path, _WHAT, _ADVICE):
        if len(content) > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES} bytes")
        record = json.loads(_read_member(content).decode("utf-8"))
        if not isinstance(record, dict) or type(record.get("format")) is not int:
            raise ValueError("it does not name its format")
    if record["format"] > _FORMAT:
        raise ValueError(
            f"'{path}' has format {record['format']} (expected at most {_FORMAT}). Version {record.get('version')} of "
            f"tensorpack_lite wrote it and this is {__version__}. Install that version or a newer one."
        )
    if not isinstance(record.get("state"), dict):
        raise DamagedFileError(f"{path} cannot be read as {_WHAT}: it holds no state. {_ADVICE}")
    return dict(record["state"])


def _read_member(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(_MEMBER) as member:
        text = member.read(_MAX_BYTES + 1)  # never more, whatever size the archive states
        if len(text) > _MAX_BYTES:
            raise ValueError(f"{_MEMBER} is larger than {_MAX_BYTES} bytes")
    return text
