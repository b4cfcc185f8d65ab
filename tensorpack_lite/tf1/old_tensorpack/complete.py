"""The completion of a module of tensorpack_lite for old scripts."""

from __future__ import annotations

from types import ModuleType

from .names import add_names


def complete(module: ModuleType) -> None:
    """Add to a module what `table.py` has for it. It has been executed, and no other module has imported its names yet."""
    add_names(module)
