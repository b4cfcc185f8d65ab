"""
Secret of a job, with which the job's processes authenticate each other.

Every process needs the same string: as an argument, in an environment variable, or in a file that only its
owner can read.
"""

from __future__ import annotations

import os
import secrets
import stat

SECRET_VARIABLE = "TENSORPACK_LITE_SECRET"
"""Environment variable with the secret."""

SECRET_FILE_VARIABLE = "TENSORPACK_LITE_SECRET_FILE"
"""Environment variable with the path of a file that holds the secret and that only its owner can read."""

JOB_SECRET_VARIABLE = "TENSORPACK_RANKS_SECRET"
"""Environment variable with the secret that the launcher makes for its ranks; used if the user has not set one."""

_SHORTEST = 16  # characters; a shorter secret can be guessed offline from a recorded connection
_LONGEST = 4096  # bytes of a file that are read


def find_secret(argument: str | os.PathLike | bool | None, who: str) -> str:
    """
    Return a secret.

    Args:
        argument: the secret as str, its file as `os.PathLike`, None to read `$TENSORPACK_LITE_SECRET` or else the file
            `$TENSORPACK_LITE_SECRET_FILE`, or False for no secret regardless of the environment.
        who: the class or function that needs the secret, for error messages.

    Returns:
        The secret, or an empty string if there is none.

    Raises:
        TypeError: `argument` has another type.
        ValueError: the secret has fewer than 16 characters.
        OSError: the file cannot be read, or users other than its owner can read or write it.
    """
    secret, source = _look_up(argument, who)
    if source and len(secret) < _SHORTEST:
        raise ValueError(
            f"{who}: the secret from {source} is too short (expected at least {_SHORTEST} characters, got {len(secret)}). "
            "Make one with: openssl rand -hex 32"
        )
    return secret


def find_job_secret() -> str:
    """
    Return the secret with which the ranks of a job authenticate each other.

    It is the user's secret if there is one (see `find_secret`), otherwise the launcher's.

    Returns:
        The secret, or an empty string if there is none.

    Raises:
        ValueError, OSError: as in `find_secret`.
    """
    return find_secret(None, "ranks") or os.environ.get(JOB_SECRET_VARIABLE, "")


def make_secret() -> str:
    """Return a new random secret."""
    return secrets.token_hex(32)


def _look_up(argument: str | os.PathLike | bool | None, who: str) -> tuple[str, str]:
    """Return the secret and its source; two empty strings if there is none."""
    if argument is False:
        return "", ""
    if isinstance(argument, str):
        return argument, "the argument"
    if isinstance(argument, os.PathLike):
        return _read(os.fspath(argument), who), str(argument)
    if argument is not None:
        raise TypeError(
            f"{who}: the secret has the wrong type (expected str, os.PathLike, False or None, got {type(argument).__name__}). "
            "Pass the text, or a pathlib.Path of its file."
        )
    if os.environ.get(SECRET_VARIABLE):
        return os.environ[SECRET_VARIABLE], SECRET_VARIABLE
    path = os.environ.get(SECRET_FILE_VARIABLE)
    return (_read(path, who), path) if path else ("", "")


def _read(path: str | os.PathLike, who: str) -> str:
    with open(path, "rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise PermissionError(
                f"{who}: others can read or write the secret in {path} (expected mode 600, got {mode:o}). "
                f"Run: chmod 600 {path}"
            )
        return file.read(_LONGEST).decode("utf-8", "surrogateescape").strip()
