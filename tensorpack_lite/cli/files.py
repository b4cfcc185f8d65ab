"""The error of all commands for a file that does not exist."""

from __future__ import annotations

import os


def check_exists(path: str) -> str:
    """
    Return the path of an existing file or directory.

    Raises:
        FileNotFoundError: there is none.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist. The current directory is {os.getcwd()}.")
    return path
