"""Whether this process was started by `tensorpack-lite lint`, which ends a script before its training starts."""

from __future__ import annotations

import os

__all__ = ["FOUND_NOTHING", "FOUND_REMARKS", "VARIABLE", "lint_directory"]

VARIABLE = "TENSORPACK_LITE_LINT"
"""The environment variable. Its value is the directory for the log."""

FOUND_NOTHING, FOUND_REMARKS = 90, 91  # exit codes; a script that does not train ends with another one


def lint_directory() -> str | None:
    """Return the directory for the log of a script that is only examined; None in all other processes."""
    return os.environ.get(VARIABLE) or None
