"""The one place that replaces attributes of other libraries, for `tensorpack-lite run` and `cpu_layout.install`."""

from __future__ import annotations

from typing import Any

__all__ = ["add", "replace"]


def replace(owner: Any, name: str, value: Any) -> None:
    """
    Replace an attribute of a module or class of another library, for the whole process.

    Args:
        owner: the module or class.
        name: an attribute that it has.
        value: the new value.

    Raises:
        AttributeError: there is no such attribute: this version of the library has moved it.
    """
    if not hasattr(owner, name):
        raise AttributeError(f"{owner.__name__} has no attribute '{name}' to replace.")
    add(owner, name, value)


def add(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a module or class of another library that may not have it, for the whole process."""
    setattr(owner, name, value)
