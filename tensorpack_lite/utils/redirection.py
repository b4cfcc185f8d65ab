"""Directories that a command, such as `tensorpack-lite rehearse`, uses instead of those that the script names."""

from __future__ import annotations

import glob
import os

VARIABLE = "TENSORPACK_LITE_LOG_DIRECTORY"
"""The environment variable that names the directory."""


class _Redirections:
    """
    The directories that this process has replaced.

    Attributes:
        used: the directory that is used, by the absolute path of the one that the script names.
    """

    def __init__(self) -> None:
        self.used: dict[str, str] = {}


_REDIRECTIONS = _Redirections()


def redirect_log(path: str) -> str | None:
    """
    Return the directory for the log of a training in place of the one that the script names; None if there is no command.

    Args:
        path: as the script names it.
    """
    replacement = os.environ.get(VARIABLE)
    if not replacement:
        return None
    _REDIRECTIONS.used[os.path.abspath(path)] = replacement
    return replacement


def redirect(path: str) -> str:
    """
    Return the directory to use instead of one that the script names: below that of the command that runs the script.

    Args:
        path: a directory for files of a training.

    Returns:
        The same directory, unless this process has the environment variable of such a command.
    """
    replacement = os.environ.get(VARIABLE)
    if not replacement:
        return path
    inside, path = os.path.join(os.path.abspath(replacement), ""), os.path.abspath(path)
    if os.path.join(path, "").startswith(inside):
        return path
    _REDIRECTIONS.used[path] = f"{inside}elsewhere{os.sep}{path.strip(os.sep).replace(os.sep, '-')}"
    return _REDIRECTIONS.used[path]


def find_redirected(path: str) -> str:
    """
    Return the path of a checkpoint of this training, whose directory may have been redirected.

    Args:
        path: a checkpoint, another file, or a directory with checkpoints, as the script names it.

    Returns:
        The path inside the directory that is used instead, if the checkpoint is there; otherwise the same path.
    """
    named_path = os.path.abspath(path)
    for named, used in _REDIRECTIONS.used.items():
        if os.path.join(named_path, "").startswith(os.path.join(named, "")):
            candidate = os.path.normpath(os.path.join(used, os.path.relpath(named_path, named)))
            pattern = os.path.join(glob.escape(candidate), "checkpoint")
            if glob.glob(pattern if os.path.isdir(candidate) else f"{glob.escape(candidate)}*"):
                return candidate
    return path
