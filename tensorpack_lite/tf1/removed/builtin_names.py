"""The built-in names of Python 2. Files of the script that use them import them from here."""

from __future__ import annotations

from typing import Any

from .addresses import resolve
from .table import BUILTINS


def __getattr__(name: str) -> Any:
    if name not in BUILTINS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return resolve(BUILTINS[name])
