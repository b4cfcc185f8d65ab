"""Directories that callbacks write to, and the errors if there is none."""

from __future__ import annotations

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.fs import absolute
from ..utils.redirection import redirect


def need_logger_dir(who: str) -> str:
    """
    Return the logger's directory.

    Raises:
        RuntimeError: no directory is set; the message begins with `who`.
    """
    directory = logger.get_logger_dir()
    if directory is None:
        raise RuntimeError(f"{who}: no directory to write to. Call logger.set_logger_dir(...) first.")
    return directory


def find_checkpoint_dir(directory: str | None) -> str | None:
    """Return the absolute path of the given directory, or else of the logger's directory; None if there is neither."""
    directory = redirect(directory) if directory else logger.get_logger_dir()
    return None if directory is None else absolute(directory)


def need_checkpoint_dir(directory: str | None, who: str) -> str:
    """
    Return `directory`, or else the logger's directory, after creating it if it is missing.

    Raises:
        RuntimeError: neither is set; the message begins with `who`.
        OSError: the directory is missing and cannot be created.
    """
    directory = directory or find_checkpoint_dir(None)
    if directory is None:
        raise RuntimeError(
            f"{who}: no directory to save to. Call logger.set_logger_dir(...) first, or pass checkpoint_dir=..."
        )
    try:
        tf.io.gfile.makedirs(directory)
    except tf.errors.OpError as error:
        raise OSError(f"{who}: cannot create the directory '{directory}': {error.message}.") from error
    return directory
